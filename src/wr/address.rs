//! Where a work request goes: to the peer of the connection, or to a destination of its own.

#![allow(unsafe_code)] // writes C work requests

use super::op;
use super::port::Port;
use crate::bounded::{Qkey, Qpn};
use crate::qp::ah_table::AhIndex;
use crate::sys::types::{ibv_send_wr, ud_t};

/// The [`Address`] of a work request whose destination is that of the connection (R1.2).
#[derive(Clone, Copy, Debug)]
pub struct Connected;

/// The [`Address`] of a work request with a destination of its own (UD; R5.1).
#[derive(Clone, Copy, Debug)]
pub struct Datagram(pub(super) Destination);

/// Where a UD message goes (`wr.ud` of ibv_post_send(3); R5.1).
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::DatagramEnds { context, pd, pool, mut cq, mut a, mut b, .. } = proverbs::guide::datagram_ends()?;
/// let gid = context.query_gid(1, 1)?;
/// let ah = pd.create_ah(AddressVector::roce(1, gid, 1))?;
/// let address_handle: AhIndex = a.add_address_handle(ah)?;
/// let qkey = Qkey::try_from(0x1111)?;
/// let to_b = Destination { address_handle, qpn: Qpn::try_from(b.qp_num())?, qkey };
///
/// /// A SEND with a destination.
/// fn hello(to: Destination) -> WorkRequest<Send, Inline<'static, 5>, Datagram> {
///     Send::inline(b"hello").to(to)
/// }
/// b.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(hello(to_b))?;
/// proverbs::guide::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// An address handle that the queue pair was given.
    pub address_handle: AhIndex,
    /// The queue pair number.
    pub qpn: Qpn,
    /// The Q_Key of the receiving queue pair (R5.5).
    pub qkey: Qkey,
}

/// The address of a work request: [`Connected`] or [`Datagram`] (R5.1).
///
/// ```
/// # use proverbs::*;
/// /// Marks work requests of any transport: `A` is `Connected` on RC and UC, `Datagram` on UD.
/// fn wake<A: Address, F, G>(wr: WorkRequest<Send, Buf, A, F, G>) -> WorkRequest<Send, Buf, A, F, G> {
///     wr.solicited()
/// }
/// let _ = (wake::<Connected, Fenced, Plain>, wake::<Datagram, Unfenced, Plain>);
/// ```
pub trait Address: Copy + sealed::Sealed {
    /// # Safety
    /// `wr` is writable; a `Datagram` needs a port with a table of address handles, or is of the queue pair
    /// and still there (`trusted`).
    #[doc(hidden)]
    unsafe fn emit(self, wr: *mut ibv_send_wr, port: &mut Port, trusted: bool);
}

impl Address for Connected {
    #[inline(always)]
    unsafe fn emit(self, _: *mut ibv_send_wr, _: &mut Port, _: bool) {}
}

impl Address for Datagram {
    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr, port: &mut Port, trusted: bool) {
        let Destination { address_handle, qpn, qkey } = self.0;
        // SAFETY: the caller's contract.
        if !trusted && !unsafe { port.ah_table() }.has(address_handle) {
            port.unknown_ah();
        }
        // SAFETY: the caller's contract.
        let ud = unsafe { op::arm::<ud_t>(wr) };
        let ah = address_handle.as_ptr();
        // SAFETY: as above.
        unsafe { ud.write(ud_t { ah, remote_qpn: qpn.get(), remote_qkey: qkey.get() }) };
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Connected {}
    impl Sealed for super::Datagram {}
}
