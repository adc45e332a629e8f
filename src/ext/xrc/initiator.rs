//! Initiators of XRC.

use super::{XrcReturn, XrcRtr, XrcRts, XrcSqd};
use crate::allows::{Allows, call};
use crate::completion::CqHandle;
use crate::device::{Can, ProtectionDomain};
use crate::profile::Profile;
use crate::qp::create::create;
use crate::qp::modify::{Transition, transitions};
use crate::qp::{ConnectedInit, ConnectedReinit, Depth, Drain, QpCreateFlags, QueuePair};
use crate::rules::UsesNoQueue;
use crate::terms::error::Error;
use crate::terms::state::{Draining, Init, Reset, Rtr, Rts, Sqd};
use crate::terms::threads::Threads;
use crate::terms::transport::Xrc;

impl<L: Threads> ProtectionDomain<L> {
    /// Creates an initiator of XRC (`ibv_create_qp` with `IBV_QPT_XRC_SEND`): a queue pair that
    /// only sends. Its profile has `receive: NoRq`.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// It reserves `depth + 1` entries of `cq`, and does not need an XRC domain. Its peer is an
    /// [`XrcTarget`](crate::ext::xrc::XrcTarget), which has an example. It has a separate function
    /// because it uses one completion queue and needs proof that the device supports XRC.
    ///
    /// # Errors
    /// As for [`create_qp`](Self::create_qp), and
    /// [`ErrorKind::ContextMismatch`](crate::ErrorKind::ContextMismatch) if `can` belongs to
    /// another context.
    pub fn create_xrc_initiator<P: Profile<Threads = L>>(
        &self,
        can: &Can<Xrc>,
        cq: &CqHandle<P::Entry, L>,
        depth: u32,
    ) -> Result<QueuePair<Xrc, Reset, P>, Error>
    where
        QueuePair<Xrc, Reset, P>: Allows<call::CreateXrcInitiator>,
    {
        can.check_is_of(
            &self.context(),
            "ibv_create_qp",
            "the proof of XRC and the protection domain",
        )?;
        let depth = Depth { send: depth, recv: 0 };
        create::<Xrc, P>(self, cq, cq, depth, None, QpCreateFlags::default())
    }
}

allows! { [P: Profile<Receive: UsesNoQueue>] QueuePair<Xrc, Reset, P>: CreateXrcInitiator; }

transitions! {
    ConnectedInit: Xrc Reset -> Init;
    ConnectedReinit: Xrc Init -> Init;
    XrcRtr: Xrc Init -> Rtr;
    XrcRts<P>: Xrc Rtr -> Rts;
    XrcReturn: Xrc Rts -> Rts, Xrc Sqd -> Rts;
    XrcSqd<P>: Xrc Sqd -> Draining;
    Drain: Xrc Rts -> Draining;
}
