//! Endpoints whose events are delivered to a channel: `rdma_migrate_id`, disconnection as an event,
//! and the parts of an endpoint.

use std::fmt;

use super::{Ep, EpState, Rest, Side};
use crate::cm::channel::EventChannel;
use crate::cm::event::{Event, PeerParam};
use crate::cm::id::CmId;
use crate::cm::space::{PortSpace, Tcp};
use crate::cm::state::{Disconnected, Established, Mode, OnChannel, Synchronous};
use crate::cm::waits::{Awaited, Progress, Waits};
use crate::completion::channel::CompletionChannel;
use crate::completion::queue::CompletionQueue;
use crate::device::pd::ProtectionDomain;
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::terms::error::Refused;

impl<P: Profile> Ep<Tcp, Established, P, OnChannel> {
    /// Processes an event of this endpoint. If the peer disconnected, this side confirms, like
    /// [`disconnect`](Self::disconnect). Any other event changes nothing.
    ///
    /// [`Progress::Failed`] contains the endpoint, unchanged, as for
    /// [`Connection::advance`](crate::cm::Connection::advance).
    pub fn advance(
        self,
        event: &Event,
    ) -> Progress<Ep<Tcp, Disconnected, P, OnChannel>, Self, Self> {
        self.step(event)
    }
}

impl<P: Profile, M: Mode> Waits for Ep<Tcp, Established, P, M> {
    type Done = Ep<Tcp, Disconnected, P, M>;
    type Failed = Self;

    fn awaits(&self) -> Awaited<'_> {
        Awaited::of_an_end(&self.id)
    }

    fn done(self, _: &Event) -> Progress<Self::Done, Self, Self> {
        self.ended()
    }

    fn ended(self) -> Progress<Self::Done, Self, Self> {
        self.disconnect().into()
    }

    fn give_up(self) -> Self {
        self
    }
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile, M: Mode> Ep<PS, S, P, M> {
    /// Moves the endpoint's id to `channel`, with its pending events (`rdma_migrate_id`). The calls
    /// of the endpoint then return at once.
    ///
    /// # Errors
    /// As for [`CmId::migrate_to`]. The error contains the endpoint.
    #[doc(alias = "rdma_migrate_id")]
    pub fn migrate_to(
        self,
        channel: &EventChannel,
    ) -> Result<Ep<PS, S, P, OnChannel>, Refused<Self>> {
        self.migrate(|id| id.migrate_to(channel))
    }

    /// Makes the endpoint synchronous (`rdma_migrate_id` without a channel).
    ///
    /// # Errors
    /// As for [`CmId::into_synchronous`]. The error contains the endpoint.
    pub fn into_synchronous(self) -> Result<Ep<PS, S, P, Synchronous>, Refused<Self>> {
        self.migrate(CmId::into_synchronous)
    }

    fn migrate<To: Mode>(
        self,
        migrate: impl FnOnce(CmId<PS, S, M>) -> Result<CmId<PS, S, To>, Refused<CmId<PS, S, M>>>,
    ) -> Result<Ep<PS, S, P, To>, Refused<Self>> {
        let (qp, id, rest) = self.apart();
        match migrate(id) {
            Ok(id) => Ok(rest.with(qp, id)),
            Err(refused) => Err(refused.map(|id| rest.with(qp, id))),
        }
    }

    /// Splits the endpoint into its objects, for programs that use them separately: its completion
    /// channels can be awaited (`CompletionChannel::into_async` with the feature `tokio`), and its
    /// completion queues polled in an event loop.
    ///
    /// ```
    /// use proverbs::{cm::*, loopback::Fabric, prelude::*};
    /// # use std::time::Duration;
    /// # let fabric = Fabric::new();
    /// # let _device = fabric.open_device();
    /// # let (second, at) = (Duration::from_secs(1), "10.0.0.1:7471".parse()?);
    /// # let _listening = CmId::<Tcp, _>::on(&fabric)?.bind_addr(at)?.listen(8)?;
    /// # let id = CmId::<Tcp, _>::on(&fabric)?.resolve_addr(at, second)?.resolve_route(second)?;
    /// # let ep = id.create_ep::<DefaultProfile>(None, Depth { send: 8, recv: 8 })?;
    /// let EpParts { recv: (mut cq, channel), id, qp, .. } = ep.into_parts();
    /// assert!(cq.poll_or_arm(proverbs::completion::Notify::Any)?.is_empty());
    /// # drop((channel, id, qp));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_parts(self) -> EpParts<PS, S, P, M> {
        let (qp, id, Rest { peer, private_data, pd, send, recv }) = self.apart();
        let both = |Side { cq, channel }| (cq, channel);
        EpParts { qp, id, peer, private_data, pd, send: both(send), recv: both(recv) }
    }
}

/// A completion queue and its channel.
type Completing<E, L> = (CompletionQueue<E, L>, CompletionChannel);

/// The parts of an [endpoint](Ep), from [`Ep::into_parts`].
#[non_exhaustive]
pub struct EpParts<
    PS: PortSpace,
    S: EpState<PS>,
    P: Profile = DefaultProfile,
    M: Mode = Synchronous,
> {
    /// The queue pair.
    pub qp: QueuePair<PS::Transport, S::Qp, P>,
    /// The id.
    pub id: CmId<PS, S, M>,
    /// The peer's parameters, once it sent them (TCP).
    pub peer: Option<PeerParam>,
    /// The private data that the peer sent with its request or its reply.
    pub private_data: Vec<u8>,
    /// The protection domain.
    pub pd: ProtectionDomain,
    /// The completion queue of sends.
    pub send: Completing<P::Entry, P::Threads>,
    /// The completion queue of receives.
    pub recv: Completing<P::Entry, P::Threads>,
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile, M: Mode> fmt::Debug for EpParts<PS, S, P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpParts").field("qp", &self.qp).finish_non_exhaustive()
    }
}
