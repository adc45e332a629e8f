//! Queue pairs of ids: created on the id's device, and moved with the attributes of the connection.

use super::id::CmId;
use super::param::{Tuning, check_depth, depth_of};
use super::space::PortSpace;
use super::state::{CmState, Mode};
use crate::allows::{Allows, call};
use crate::completion::handle::CqHandle;
use crate::device::pd::ProtectionDomain;
use crate::profile::Profile;
use crate::qp::{CreatedWith, QueuePair};
use crate::sys::cm::Id;
use crate::sys::types::{ibv_qp_attr, ibv_qp_attr_mask as Mask, zeroed};
use crate::terms::bounded::Timeout;
use crate::terms::error::{Error, Refused};
use crate::terms::state::{Err, Init, Reset, Rtr, Rts, State};
use crate::terms::transport::{Rc, Transport, Ud};

/// The queue pair that [`create_qp`](CmId::create_qp) of an id of port space `PS` returns: RC in
/// INIT, UD in RTS.
pub type MadeBy<PS, P> = QueuePair<<PS as PortSpace>::Transport, <PS as PortSpace>::Made, P>;

/// A queue pair of port space `PS` that is still in RESET, for [`init_qp`](CmId::init_qp).
pub type NewFor<PS, P> = QueuePair<<PS as PortSpace>::Transport, Reset, P>;

/// The source of the attributes.
#[doc(hidden)]
pub struct Attributes<'id>(&'id Id);

const CREATE: &str = "rdma_create_qp";

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// Creates a queue pair on this id's device (`rdma_create_qp`) that completes into the
    /// program's completion queues.
    ///
    /// Its transport depends on the port space ([R16.9](crate::guide::rules#r16-9)). On TCP it is
    /// in INIT, so that you can post receives before you pass it to [`connect`](Self::connect) or
    /// `accept`. You can post sends once it is connected. On UDP it is in RTS at once.
    ///
    /// ```no_run
    /// use proverbs::{cm::*, prelude::*};
    ///
    /// profile! { OnSrq { receive: SharedRq } }
    ///
    /// fn shared(id: &CmId<Tcp, RouteResolved>, srq: &SharedReceiveQueue<Rc>, cq: &CompletionQueue)
    ///     -> Result<QueuePair<Rc, Init, OnSrq>, proverbs::Error>
    /// {
    ///     id.create_qp(&id.pd()?, cq, cq, Depth::on_srq(8, srq))
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os): EINVAL if `pd` is not on this id's device, or the errno of
    /// `rdma_init_qp_attr` or `ibv_modify_qp`. Otherwise as for [`ProtectionDomain::create_qp`].
    #[doc(alias("rdma_create_qp", "rdma_create_qp_ex", "rdma_destroy_qp"))]
    pub fn create_qp<P: Profile>(
        &self,
        pd: &ProtectionDomain<P::Threads>,
        send_cq: &CqHandle<P::Entry, P::Threads>,
        recv_cq: &CqHandle<P::Entry, P::Threads>,
        depth: impl CreatedWith<PS::Transport, P>,
    ) -> Result<MadeBy<PS, P>, Error>
    where
        Self: Allows<call::UseDevice>,
    {
        self.check_context(CREATE, &pd.context())?;
        let qp = pd.create_qp::<PS::Transport, P>(send_cq, recv_cq, depth)?;
        Ok(self.init_qp(pd, qp)?)
    }

    /// Moves a queue pair from RESET to the state in which `create_qp` returns one. Use it for
    /// queue pairs that were reset, or created before the id. `pd` is the protection domain of the
    /// queue pair, on this id's device.
    ///
    /// # Errors
    /// The error contains the queue pair, in RESET. [`PdMismatch`](crate::ErrorKind::PdMismatch):
    /// the queue pair has another protection domain. [`Os`](crate::ErrorKind::Os): EINVAL if `pd`
    /// is not on this id's device, or the errno of `rdma_init_qp_attr` or `ibv_modify_qp`.
    ///
    /// ```no_run
    /// use proverbs::{cm::*, prelude::*};
    ///
    /// fn again(id: &CmId<Tcp, RouteResolved>, qp: QueuePair<Rc, state::Err>)
    ///     -> Result<QueuePair<Rc, Init>, proverbs::Error>
    /// {
    ///     let qp = qp.reset()?;
    ///     Ok(id.init_qp(&id.pd()?, qp)?)
    /// }
    /// ```
    #[doc(alias("rdma_init_qp_attr", "rdma_create_qp_ex"))]
    pub fn init_qp<P: Profile>(
        &self,
        pd: &ProtectionDomain<P::Threads>,
        qp: NewFor<PS, P>,
    ) -> Result<MadeBy<PS, P>, Refused<NewFor<PS, P>>>
    where
        Self: Allows<call::UseDevice>,
    {
        or_refused!(qp, self.check_context(CREATE, &pd.context()).and_then(|()| qp.check_pd(pd)));
        PS::bring(&Attributes(&self.core.id), qp)
    }
}

/// A queue pair in the state `To`, or the error and the queue pair in the state `Left`.
pub(super) type Moved<T, To, Left, P> = Result<QueuePair<T, To, P>, Refused<QueuePair<T, Left, P>>>;

/// Moves the queue pair to `To`, with the attributes that `id` negotiated, adjusted by `tune`.
fn step<T: Transport, From: State, To: State, P: Profile>(
    id: &Id,
    qp: QueuePair<T, From, P>,
    tune: impl FnOnce(&mut ibv_qp_attr),
) -> Moved<T, To, From, P> {
    match id.qp_attr(To::STATE.to_c()) {
        Ok((mut attr, mask)) => {
            tune(&mut attr);
            qp.modify_by_cm(&mut attr, mask)
        }
        Err(errno) => {
            let asked = format!("for {}; is the peer gone?", To::STATE);
            Err(Refused::new(qp, Error::os("rdma_init_qp_attr", errno, asked)))
        }
    }
}

/// Moves a TCP queue pair to INIT.
pub(super) fn bring_rc<P: Profile>(
    from: &Attributes<'_>,
    qp: QueuePair<Rc, Reset, P>,
) -> Moved<Rc, Init, Reset, P> {
    step(from.0, qp, |_| ())
}

/// Moves a UDP queue pair to RTS.
pub(super) fn bring_ud<P: Profile>(
    from: &Attributes<'_>,
    qp: QueuePair<Ud, Reset, P>,
) -> Moved<Ud, Rts, Reset, P> {
    let qp = step::<_, _, Init, _>(from.0, qp, |_| ())?;
    let back = |mut qp: QueuePair<Ud, Err, P>| {
        // This resets at once: peers do not know the queue pair's number, so it has consumed no
        // shared receives. Nothing was posted, so nothing returns. If the reset fails, nothing can
        // be posted, which is as good.
        drop(qp.core.reset_now(Err::STATE));
        QueuePair::from_core(qp.core)
    };
    let mut attr = zeroed::<ibv_qp_attr>();
    let qp = qp
        .modify_by_cm::<Rtr>(&mut attr, 0)
        .map_err(|refused| refused.map(|qp| back(qp.give_up())))?;
    qp.modify_by_cm(&mut attr, Mask::IBV_QP_SQ_PSN.0)
        .map_err(|refused| refused.map(|qp| back(qp.give_up())))
}

/// The queue pair after the kernel moved it to RTS while it connected the id. This happens on
/// iWARP, where only the kernel can do it ([R24.5](crate::guide::rules#r24-5)). The kernel sets the
/// initiator and responder depths. If the peer does not serve READs and the profile requires them,
/// the queue pair is in the error state.
pub(super) fn brought_up<P: Profile>(
    verb: &'static str,
    qp: QueuePair<Rc, Init, P>,
    depth: u8,
) -> Moved<Rc, Rts, Err, P> {
    or_refused!(qp.give_up(), check_depth::<P>(verb, depth));
    qp.moved_by_cm().map_err(|refused| refused.map(QueuePair::give_up))
}

/// Moves the queue pair through INIT and RTR to RTS, with the attributes of the connection that
/// `id` negotiated, limited by `tuning`. If that fails, the queue pair is in the error state.
pub(super) fn bring_up<P: Profile>(
    id: &Id,
    qp: QueuePair<Rc, Init, P>,
    tuning: Tuning,
) -> Moved<Rc, Rts, Err, P> {
    fn give_up<S: State, P: Profile>(
        refused: Refused<QueuePair<Rc, S, P>>,
    ) -> Refused<QueuePair<Rc, Err, P>> {
        refused.map(QueuePair::give_up)
    }
    // INIT again, because the peer's rights depend on the depths, which are negotiated only now
    // (R16.18).
    let qp = step::<_, _, Init, _>(id, qp, |_| ()).map_err(give_up)?;
    let qp = step::<_, _, Rtr, _>(id, qp, |attr| {
        attr.max_dest_rd_atomic = attr.max_dest_rd_atomic.min(tuning.responder_resources);
        attr.min_rnr_timer = tuning.min_rnr_timer.get();
    });
    let qp = step(id, qp.map_err(give_up)?, |attr| {
        attr.max_rd_atomic = attr.max_rd_atomic.min(tuning.initiator_depth);
        attr.max_rd_atomic = depth_of::<P>(attr.max_rd_atomic);
        attr.retry_cnt = attr.retry_cnt.min(tuning.retry_count.get());
        // 7, infinite, is the largest.
        attr.rnr_retry = attr.rnr_retry.min(tuning.rnr_retry_count.to_c());
        attr.timeout = tuning.ack_timeout.map_or(attr.timeout, Timeout::to_c);
    });
    qp.map_err(give_up)
}
