//! Opcodes with a buffer of an implicit region.

use std::marker::PhantomData;

use super::implicit::of_ops;
use super::{ImplicitBuf, PagedOps};
use crate::allows::{Allows, call};
use crate::device::OdpOps;
use crate::profile::{Initiator, Posting};
use crate::rules::{CreatedFor, IssuedBy, PostOn, SolicitedOp};
use crate::sys::data::Operands;
use crate::terms::transport::Transport;
use crate::work::opcode::{
    Opcode, RdmaWrite, RdmaWriteWithImm, Send, SendWithImm, StartsAt, sealed,
};
use crate::work::request::{Use, WorkRequest, request};
use crate::work::wc_opcode::WcOpcode;

/// The opcode `O` with a buffer of an [`ImplicitRegion`](crate::ext::on_demand::ImplicitRegion),
/// for queue pairs of the transport `T` that the region's ability covers
/// ([R20.6](crate::guide::rules#r20-6)).
///
/// The `paged` functions of the opcodes create it:
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::on_demand::{Implicit, ImplicitBuf};
/// type Both = (wr::Send, wr::RdmaWrite);
/// profile! { Sender { entry: ImplicitBuf<Rc, Both> } }
///
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, context, .. } =
/// #     proverbs::loopback::pair_of::<Sender>()?;
/// # let can = context.abilities()?.can::<Implicit<Rc, Both>>().ok_or("no")?;
/// # let region = pd.register::<RemoteWrite>(64)?;
/// # let at = region.remote().write();
/// # for _ in 0..3 { b.post_recv(wr::Recv::empty())?; }
/// let all = pd.register_implicit::<Rc, Both>(&can)?;
/// let table = all.adopt(b"one two".to_vec())?;
/// let first: wr::WorkRequest<ext::on_demand::Paged<wr::RdmaWrite, Rc>, _> =
///     wr::RdmaWrite::paged(table.part(..3)?, at);
/// post_send!(a, [first, wr::RdmaWriteWithImm::paged(table.clone(), at, 7)])?;
/// a.post_send(wr::Send::paged(table.part(..0)?))?; // (the peer's receive is empty)
/// a.post_send(wr::SendWithImm::paged(table.part(..0)?, 8).solicited())?;
/// proverbs::loopback::poll(&mut cq, 7)?;
/// assert_eq!(table.handles(), 1); // all others were returned and dropped
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Paged<O, T> {
    op: O,
    _over: PhantomData<fn() -> T>,
}

impl<O, T> Paged<O, T> {
    #[inline(always)]
    fn of(op: O) -> Self {
        Paged { op, _over: PhantomData }
    }
}

impl Send {
    /// Sends memory of an implicit region. [`Paged`] has an example.
    #[inline(always)]
    pub fn paged<T: Transport, X: Allows<call::PostPaged<Send>>>(
        data: ImplicitBuf<T, X>,
    ) -> WorkRequest<Paged<Send, T>, ImplicitBuf<T, X>> {
        request(Paged::of(Send), data, Use::Send)
    }
}

impl SendWithImm {
    /// Sends memory of an implicit region, and `imm_data`. [`Paged`] has an example.
    #[inline(always)]
    pub fn paged<T: Transport, X: Allows<call::PostPaged<Send>>>(
        data: ImplicitBuf<T, X>,
        imm_data: u32,
    ) -> WorkRequest<Paged<SendWithImm, T>, ImplicitBuf<T, X>> {
        request(Paged::of(SendWithImm { imm_data }), data, Use::Send)
    }
}

impl RdmaWrite {
    /// Writes memory of an implicit region to the peer's memory at `remote`. [`Paged`] has an
    /// example.
    #[inline(always)]
    pub fn paged<T: Transport, X: Allows<call::PostPaged<RdmaWrite>>, R>(
        data: ImplicitBuf<T, X>,
        remote: R,
    ) -> WorkRequest<Paged<RdmaWrite, T>, ImplicitBuf<T, X>>
    where
        Self: StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        request(Paged::of(RdmaWrite { remote }), data, use_)
    }
}

impl RdmaWriteWithImm {
    /// Writes memory of an implicit region to the peer's memory at `remote`, and completes a
    /// receive at the peer with `imm_data`. [`Paged`] has an example.
    #[inline(always)]
    pub fn paged<T: Transport, X: Allows<call::PostPaged<RdmaWrite>>, R>(
        data: ImplicitBuf<T, X>,
        remote: R,
        imm_data: u32,
    ) -> WorkRequest<Paged<RdmaWriteWithImm, T>, ImplicitBuf<T, X>>
    where
        Self: StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        request(Paged::of(RdmaWriteWithImm { remote, imm_data }), data, use_)
    }
}

impl<O: Opcode, T> sealed::Sealed for Paged<O, T> {}

impl<O: Opcode, T> Opcode for Paged<O, T> {
    type Addr = O::Addr;

    const CODE: u32 = O::CODE;
    const NAME: &'static str = O::NAME;
    const USE: Use = O::USE;
    const IS_RDMA: bool = O::IS_RDMA;
    const COMPLETES_AS: WcOpcode = O::COMPLETES_AS;

    #[inline(always)]
    fn limit(&self) -> u32 {
        self.op.limit()
    }

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        self.op.emit(to);
    }
}

impl<O: SolicitedOp, T> SolicitedOp for Paged<O, T> {}

impl_debug!([O: Opcode, T] Paged<O, T>, |_| "Paged({})", O::NAME);

impl of_ops::Sealed for Send {}
impl of_ops::Sealed for RdmaWrite {}
impl of_ops::Sealed for (Send, RdmaWrite) {}

impl PagedOps for Send {
    const OPS: OdpOps = OdpOps::SEND;
}

impl PagedOps for RdmaWrite {
    const OPS: OdpOps = OdpOps::WRITE;
}

impl PagedOps for (Send, RdmaWrite) {
    const OPS: OdpOps = OdpOps::SEND.union(OdpOps::WRITE);
}

allows! { [O: PagedIn<X>, X: PagedOps] X: PostPaged<O>; }

#[diagnostic::do_not_recommend]
impl PagedIn<Send> for Send {}
#[diagnostic::do_not_recommend]
impl PagedIn<RdmaWrite> for RdmaWrite {}
#[diagnostic::do_not_recommend]
impl PagedIn<(Send, RdmaWrite)> for Send {}
#[diagnostic::do_not_recommend]
impl PagedIn<(Send, RdmaWrite)> for RdmaWrite {}

/// Memory of an implicit region can be posted with the operations that the region's ability covers
/// ([R20.6](crate::guide::rules#r20-6)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot post memory of this implicit region",
    label = "the region was made for `{X}`",
    note = "a device may support only one of them with on-demand paging: request both, `Can<Implicit<Rc, (wr::Send, wr::RdmaWrite)>>`, and pass the result to `register_implicit`"
)]
pub trait PagedIn<X: PagedOps>: Opcode {}

impl<T: Transport, O: PostOn<T>> PostOn<T> for Paged<O, T> {}
impl<I: Initiator, O: IssuedBy<I>, T> IssuedBy<I> for Paged<O, T> {}
impl<X: Posting, O: CreatedFor<X>, T> CreatedFor<X> for Paged<O, T> {}
