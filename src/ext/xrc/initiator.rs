//! Creating initiators of XRC, and the attributes of initiators and targets.

use crate::allows::{Allows, call};
use crate::completion::CqHandle;
use crate::device::{AddressVector, Can, ProtectionDomain};
use crate::memory::remote::by_fields;
use crate::profile::{Initiator, Profile};
use crate::qp::c_attr::{Attr, Fill, attributes};
use crate::qp::create::create;
use crate::qp::modify::{Transition, transitions};
use crate::qp::{ConnectedInit, ConnectedReinit, Depth, Drain, QpAccess, QpCreateFlags, QueuePair};
use crate::rules::UsesNoQueue;
use crate::terms::bounded::{
    MinRnrTimer, Mtu, Psn, Qpn, ResponderDepth, RetryCount, RnrRetry, Timeout,
};
use crate::terms::error::Error;
use crate::terms::state::{Draining, Init, Reset, Rtr, Rts, Sqd};
use crate::terms::threads::Threads;
use crate::terms::transport::Xrc;

attributes! {
    /// INIT -> RTR of an initiator of XRC (ibv_modify_qp(3)): like RC, without the attributes for
    /// requests of the peer. [`XrcTarget`](crate::ext::xrc::XrcTarget) has an example.
    pub struct XrcRtr {
        /// The address vector of the target's port.
        pub address: AddressVector,
        /// The path MTU.
        pub path_mtu: Mtu = Mtu::Bytes1024,
        /// The target.
        pub dest_qpn: Qpn,
        /// The target's `sq_psn` ([R8.7](crate::guide::rules#r8-7)).
        pub rq_psn: Psn,
        /// Access rights of peers. They have no effect, because an initiator's peer sends no
        /// requests.
        pub access: Option<QpAccess> = None,
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16> = None,
    } new {
        /// Uses the MTU of rdma-core's examples, 1024.
    }

    /// RTR -> RTS of an initiator of XRC (ibv_modify_qp(3)): like [`RcRts`](crate::qp::RcRts).
    pub struct XrcRts<P> {
        /// The timeout for an acknowledgement.
        pub timeout: Timeout = Timeout::MS_67,
        /// Transport retries.
        pub retry_cnt: RetryCount = RetryCount::SIX,
        /// RNR retries.
        pub rnr_retry: RnrRetry = RnrRetry::SIX,
        /// The first PSN to send.
        pub sq_psn: Psn,
        /// The maximum number of outstanding reads and atomics.
        pub max_rd_atomic: <P::Initiator as Initiator>::Depth,
        /// Optional attributes.
        pub optional: XrcRtsOptional = XrcRtsOptional::default(),
    } new {
        /// Uses the values of [`RcRts::new`](crate::qp::RcRts::new).
    }

    /// Optional attributes of an initiator of XRC, for transitions to RTS and within RTS
    /// (ibv_modify_qp(3)).
    #[non_exhaustive]
    pub struct XrcRtsOptional: Default {
        /// Access rights of peers. They have no effect, because an initiator's peer sends no
        /// requests.
        pub access: Option<QpAccess>,
    }

    /// SQD -> SQD of an initiator of XRC (ibv_modify_qp(3)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{bounded::Timeout, ext::xrc::{XrcReturn, XrcSqd}, qp::Drain};
    /// # let proverbs::loopback::XrcPair { initiator, .. } = proverbs::loopback::xrc_pair()?;
    /// let qp = initiator.modify(Drain::default())?.into_sqd()?;
    /// let qp = qp.modify(XrcSqd { timeout: Timeout::exponent(20), ..XrcSqd::default() })?;
    /// let qp = qp.into_sqd()?.modify(XrcReturn::default())?;
    /// assert_eq!(qp.query()?.timeout, Timeout::exponent(20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct XrcSqd<P>: Default {
        /// The port, counted from 1.
        pub port: Option<u8>,
        /// The address vector of the target's port.
        pub address: Option<AddressVector>,
        /// The timeout for an acknowledgement.
        pub timeout: Option<Timeout>,
        /// Transport retries.
        pub retry_cnt: Option<RetryCount>,
        /// RNR retries.
        pub rnr_retry: Option<RnrRetry>,
        /// The maximum number of outstanding reads and atomics.
        pub max_rd_atomic: Option<<P::Initiator as Initiator>::Depth>,
        /// Access rights of peers. They have no effect, because an initiator's peer sends no
        /// requests.
        pub access: Option<QpAccess>,
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
    }

    /// INIT -> RTR of a target of XRC (ibv_modify_qp(3)). [`XrcTarget`](crate::ext::xrc::XrcTarget)
    /// has an example.
    pub struct XrcTargetRtr {
        /// The address vector of the initiator's port.
        pub address: AddressVector,
        /// The path MTU.
        pub path_mtu: Mtu = Mtu::Bytes1024,
        /// The initiator.
        pub dest_qpn: Qpn,
        /// The initiator's `sq_psn` ([R8.7](crate::guide::rules#r8-7)).
        pub rq_psn: Psn,
        /// The number of reads and atomics that the initiator may have outstanding
        /// ([R4.7](crate::guide::rules#r4-7)).
        pub max_dest_rd_atomic: ResponderDepth = ResponderDepth::ONE,
        /// How long the initiator waits before a retry if no receive is posted.
        pub min_rnr_timer: MinRnrTimer = MinRnrTimer::MS_82,
        /// Access rights of the initiator.
        pub access: Option<QpAccess> = None,
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16> = None,
    } new {
        /// Uses the values of [`RcRtr::new`](crate::qp::RcRtr::new).
    }

    /// RTR -> RTS of a target of XRC (ibv_modify_qp(3)). A target works in RTR already, and sends
    /// nothing in RTS, but some programs make this transition.
    pub struct XrcTargetRts {
        /// The timeout for an acknowledgement.
        pub timeout: Timeout = Timeout::MS_67,
        /// The first PSN to send.
        pub sq_psn: Psn,
        /// Access rights of the initiator.
        pub access: Option<QpAccess> = None,
        /// How long the initiator waits before a retry if no receive is posted.
        pub min_rnr_timer: Option<MinRnrTimer> = None,
    } new {
        /// Uses a timeout of 67 ms (exponent 14).
    }
}

/// RTS -> RTS and SQD -> RTS of an initiator of XRC (ibv_modify_qp(3)). [`XrcSqd`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct XrcReturn(pub XrcRtsOptional);

impl Fill for XrcReturn {
    fn fill(&self, attr: &mut Attr) {
        self.0.fill(attr);
    }
}

impl<L: Threads> ProtectionDomain<L> {
    /// Creates an initiator of XRC (`ibv_create_qp` with `IBV_QPT_XRC_SEND`): a queue pair that
    /// only sends. Its profile has `receive: NoRq`.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// It reserves `depth + 1` entries of `cq`, and does not need an XRC domain. Its peer is an
    /// [`XrcTarget`](crate::ext::xrc::XrcTarget), which has an example. Initiators have a separate
    /// function because they use one completion queue and need proof that the device supports XRC.
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
        let what = "the ability for XRC and the protection domain";
        can.check_is_of(&self.context(), "ibv_create_qp", what)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::state::QpState;

    /// A transition back to RTS sets what the program names, and nothing else.
    #[test]
    fn a_return_sets_the_access_that_is_given() {
        let filled = |access| {
            let mut attr = Attr::new(QpState::Rts);
            XrcReturn(XrcRtsOptional { access }).fill(&mut attr);
            (attr.mask & 1 << 3 != 0, attr.c.qp_access_flags) // IBV_QP_ACCESS_FLAGS
        };
        assert_eq!(filled(None), (false, 0));
        assert_eq!(filled(Some(QpAccess::REMOTE_READ)), (true, QpAccess::REMOTE_READ.bits()));
    }
}
