//! The destination of a work request: the connected peer, or a destination in the work request.

#![allow(unsafe_code)] // declares an unsafe method

use crate::sys::ah_table::AhIndex;
use crate::sys::data::Operands;
use crate::sys::types::ud_t;
use crate::terms::bounded::{Qkey, Qpn, SrqNum};
use crate::work::fault;
use crate::work::flags::SendFlags;
use crate::work::opcode::Opcode;
use crate::work::request::{Check, WorkRequest};

/// The [`Address`] of a work request that goes to the connected peer
/// ([R1.2](crate::guide::rules#r1-2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connected;

/// The [`Address`] of a work request with its own destination (UD and SRD;
/// [R5.1](crate::guide::rules#r5-1)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Datagram(pub(crate) Destination);

/// The [`Address`] of a work request that names a shared receive queue at the peer (XRC;
/// [R26.1](crate::guide::rules#r26-1)).
#[doc(alias = "ibv_qp_ex")]
#[derive(Clone, Copy, Debug)]
pub struct ToSrq(pub(crate) SrqNum);

/// The destination of a UD or SRD message (`wr.ud` of ibv_post_send(3);
/// [R5.1](crate::guide::rules#r5-1)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::AhIndex;
/// # let proverbs::loopback::DatagramPair { context, pd, pool, mut cq, mut a, mut b, .. } =
/// #     proverbs::loopback::datagram_pair()?;
/// let gid = context.roce_v2_gid(1)?;
/// let ah = pd.create_ah(AddressVector::roce_v2(gid, gid.gid())?)?;
/// let address_handle: AhIndex = a.add_address_handle(ah)?;
/// let qkey = Qkey::try_from(0x1111)?;
/// let to_b = wr::Destination { address_handle, qpn: Qpn::try_from(b.qp_num())?, qkey };
///
/// /// A SEND with a destination.
/// fn hello(to: wr::Destination) -> wr::WorkRequest<wr::Send, wr::Inline<'static, 5>, wr::Datagram> {
///     wr::Send::inline(b"hello").to(to)
/// }
/// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(hello(to_b))?;
/// proverbs::loopback::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_send_wr", "ah", "remote_qpn", "remote_qkey", "ibv_wr_set_ud_addr"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// An address handle that was added to the queue pair.
    pub address_handle: AhIndex,
    /// The queue pair number.
    pub qpn: Qpn,
    /// The Q_Key of the receiving queue pair ([R5.5](crate::guide::rules#r5-5)).
    pub qkey: Qkey,
}

impl<O, D, A, F, G> WorkRequest<O, D, A, F, G> {
    /// Sets the destination (UD and SRD only, where every send requires one;
    /// [R5.1](crate::guide::rules#r5-1)). See the example of [`Destination`].
    #[inline(always)]
    pub fn to(self, destination: Destination) -> WorkRequest<O, D, Datagram, F, G> {
        self.with(|_| Datagram(destination), SendFlags::empty())
    }

    /// Sets the shared receive queue at the peer, by the number that the peer sent (XRC only, where
    /// every work request requires one; [R26.1](crate::guide::rules#r26-1)). A message is received
    /// there. The memory of a WRITE, a READ or an atomic must be in that queue's protection domain.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::XrcPair { mut initiator, target: _target, mut srq, pool, pd, mut cq, .. } =
    /// #     proverbs::loopback::xrc_pair()?;
    /// let region = pd.register::<RemoteWrite>(64)?; // at the peer
    /// let number = srq.number(); // sent by the peer
    /// # srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// let hello: wr::WorkRequest<wr::Send, _, wr::ToSrq> = wr::Send::inline(b"hello").to_srq(number);
    /// initiator.post_send(hello)?;
    /// let there = wr::RdmaWrite::inline(b"8 bytes!", region.remote().write());
    /// initiator.post_send(there.to_srq(number))?;
    /// # proverbs::loopback::poll(&mut cq, 3)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("ibv_wr_set_xrc_srqn", "remote_srqn"))]
    #[inline(always)]
    pub fn to_srq(self, number: SrqNum) -> WorkRequest<O, D, ToSrq, F, G> {
        self.with(|_| ToSrq(number), SendFlags::empty())
    }
}

/// The address of a work request: [`Connected`], [`Datagram`] ([R5.1](crate::guide::rules#r5-1)) or
/// [`ToSrq`] ([R26.1](crate::guide::rules#r26-1)).
///
/// ```
/// # use proverbs::prelude::*;
/// /// Marks work requests of any transport: `A` is `Connected` on RC and UC, `Datagram` on UD and SRD.
/// fn wake<A: wr::Address, F, G>(wr: wr::WorkRequest<wr::Send, Buf, A, F, G>) -> wr::WorkRequest<wr::Send, Buf, A, F, G> {
///     wr.solicited()
/// }
/// let _ = (wake::<wr::Connected, wr::Fenced, wr::Plain>, wake::<wr::Datagram, wr::Unfenced, wr::Plain>);
/// ```
pub trait Address: Copy + sealed::Sealed {
    /// Records a fault if the queue pair does not have the destination.
    ///
    /// # Safety
    /// `check` contains the address handles of the queue pair, and their table has not been
    /// borrowed mutably since.
    #[doc(hidden)]
    unsafe fn check(&self, check: &mut Check);

    #[doc(hidden)]
    fn write<O: Opcode>(&self, to: &mut Operands<'_>);
}

impl Address for Connected {
    #[inline(always)]
    unsafe fn check(&self, _: &mut Check) {}

    #[inline(always)]
    fn write<O: Opcode>(&self, _: &mut Operands<'_>) {}
}

impl Address for Datagram {
    #[inline(always)]
    unsafe fn check(&self, check: &mut Check) {
        // SAFETY: `check.ah` points to the keys of a live table, by the contract.
        if !unsafe { &*check.ah }.has(self.0.address_handle) {
            check.note(fault::AH);
        }
    }

    #[inline(always)]
    fn write<O: Opcode>(&self, to: &mut Operands<'_>) {
        let Destination { address_handle, qpn, qkey } = self.0;
        let ah = address_handle.as_ptr();
        let ud = ud_t { ah, remote_qpn: qpn.get(), remote_qkey: qkey.get() };
        if O::IS_RDMA { to.apart(ud) } else { to.ud(ud) }
    }
}

impl Address for ToSrq {
    #[inline(always)]
    unsafe fn check(&self, _: &mut Check) {}

    #[inline(always)]
    fn write<O: Opcode>(&self, to: &mut Operands<'_>) {
        to.remote_srqn(self.0.get());
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ToSrq {}
    impl Sealed for super::Connected {}
    impl Sealed for super::Datagram {}
}
