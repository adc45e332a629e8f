//! Where a work request goes: to the peer of the connection, or to a destination of its own.

#![allow(unsafe_code)] // says what its method asks for

use crate::device::ah_table::AhIndex;
use crate::sys::data::Operands;
use crate::sys::types::ud_t;
use crate::terms::bounded::{Qkey, Qpn, SrqNum};
use crate::work::flags::SendFlags;
use crate::work::opcode::Opcode;
use crate::work::refusal::fault;
use crate::work::request::{Check, WorkRequest};

/// The [`Address`] of a work request whose destination is that of the connection
/// ([R1.2](crate::guide::rules#r1-2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connected;

/// The [`Address`] of a work request with a destination of its own (UD and SRD;
/// [R5.1](crate::guide::rules#r5-1)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Datagram(pub(crate) Destination);

/// The [`Address`] of a work request that names a shared receive queue at the peer (XRC;
/// [R26.1](crate::guide::rules#r26-1)).
#[doc(alias = "ibv_qp_ex")]
#[derive(Clone, Copy, Debug)]
pub struct ToSrq(pub(crate) SrqNum);

/// Where a message of UD or SRD goes (`wr.ud` of ibv_post_send(3);
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
    /// An address handle that the queue pair was given.
    pub address_handle: AhIndex,
    /// The queue pair number.
    pub qpn: Qpn,
    /// The Q_Key of the receiving queue pair ([R5.5](crate::guide::rules#r5-5)).
    pub qkey: Qkey,
}

impl<O, D, A, F, G> WorkRequest<O, D, A, F, G> {
    /// Names the destination (UD and SRD only, where every send needs one;
    /// [R5.1](crate::guide::rules#r5-1)), as [`Destination`] shows.
    #[inline(always)]
    pub fn to(self, destination: Destination) -> WorkRequest<O, D, Datagram, F, G> {
        self.with(|_| Datagram(destination), SendFlags::empty())
    }

    /// Names the shared receive queue at the peer, by the number that the peer told (XRC only,
    /// where each work request needs one; [R26.1](crate::guide::rules#r26-1)). A message is
    /// received there, and the memory that a WRITE, a READ or an atomic names is of that queue's
    /// protection domain.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::XrcPair { mut initiator, target: _target, mut srq, pool, pd, mut cq, .. } =
    /// #     proverbs::loopback::xrc_pair()?;
    /// let region = pd.register::<RemoteWrite>(64)?; // at the peer
    /// let number = srq.number(); // what the peer told
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
    /// Whether the queue pair has what it names: noted if not.
    ///
    /// # Safety
    /// `check` knows the address handles of the queue pair, whose table was not borrowed mutably
    /// since.
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
        // SAFETY: the check knows the keys of a table, which are there.
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
