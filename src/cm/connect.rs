//! The active side: `rdma_connect`.

#![allow(unsafe_code)] // one call that needs a device

use std::fmt;
use std::time::Duration;

use super::connection::Connection;
use super::ece;
use super::event::{Event, EventKind, PeerParam};
use super::id::CmId;
use super::param::{ConnParam, Tuning};
use super::queue_pair::{bring_up, brought_up};
use super::space::Tcp;
use super::state::{CmState, Connecting, Mode, OnChannel, RouteResolved, Synchronous, Unusable};
use super::table::Waiting;
use super::waits::{Awaited, Progress, Waits, finish};
use crate::allows::{Allows, call};
use crate::endpoint::Receiving;
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::terms::error::{Error, Refused};
use crate::terms::state::{Err, Init, Rts};
use crate::terms::transport::Rc;

const VERB: &str = "rdma_connect";

/// A connection attempt that failed, with everything that was passed to it.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::time::Duration;
///
/// /// Tries three times with the same queue pair.
/// fn connect(
///     at: std::net::SocketAddr,
///     mut qp: QueuePair<Rc, Reset>,
///     pd: &ProtectionDomain,
///     cq: &mut CompletionQueue,
/// ) -> Result<Connection, proverbs::Error> {
///     let second = Duration::from_secs(1);
///     let mut left = 3;
///     loop {
///         let id = CmId::<Tcp, _>::new()?.resolve_addr(at, second)?.resolve_route(second)?;
///         let ready = id.init_qp(pd, qp)?; // and receives
///         let connected = id.connect(ready, &ConnParam::default(), second);
///         let (mut failed, error) = match connected.map_err(Refused::into_parts) {
///             Ok(connection) => return Ok(connection),
///             Err((NotConnected::Unsent { qp, .. }, error)) => (qp.to_error()?, error),
///             Err((NotConnected::Failed { qp, .. }, error)) => (qp, error),
///         };
///         left -= 1;
///         if left == 0 {
///             return Err(error);
///         }
///         failed.drain(cq, |_| ())?; // returns the receives
///         qp = failed.reset()?;
///     }
/// }
/// ```
pub enum NotConnected<P: Profile = DefaultProfile, M: Mode = Synchronous> {
    /// The call failed and nothing was sent. The id and the queue pair are unchanged.
    Unsent {
        /// The id.
        id: CmId<Tcp, RouteResolved, M>,
        /// The queue pair.
        qp: QueuePair<Rc, Init, P>,
    },
    /// The peer rejected the request, or the timeout expired.
    Failed {
        /// The id, which can only be destroyed.
        id: CmId<Tcp, Unusable, M>,
        /// The queue pair, in the error state. [`drain`](QueuePair::drain) returns its receives.
        /// After a [`reset`](QueuePair::reset), [`init_qp`](CmId::init_qp) prepares it for another
        /// id.
        qp: QueuePair<Rc, Err, P>,
    },
}

/// A connection that was requested. [`advance`](Self::advance) processes the event with the answer.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
///
/// fn on_event(mut pending: Pending, event: &Event, buf: Buf) -> Option<Pending> {
///     println!("{:?} is about {:?}", event, pending.id());
///     if let Err(error) = pending.qp().post_recv(wr::Recv::new(buf)) {
///         eprintln!("{error}");
///         pending.cancel();
///         return None;
///     }
///     match pending.advance(event) {
///         Progress::Done(Connection { qp, .. }) => println!("{qp:?} is connected"),
///         Progress::Waiting(pending) => return Some(pending),
///         Progress::Failed(refused) => eprintln!("{refused}"),
///     }
///     None
/// }
/// ```
pub struct Pending<P: Profile = DefaultProfile, M: Mode = OnChannel> {
    id: CmId<Tcp, Connecting, M>,
    qp: QueuePair<Rc, Init, P>,
    /// The number that was sent to the peer.
    qp_num: u32,
    tuning: Tuning,
}

impl<M: Mode> CmId<Tcp, RouteResolved, M> {
    pub(super) fn begin<P: Profile>(
        mut self,
        qp: QueuePair<Rc, Init, P>,
        param: &ConnParam<P>,
    ) -> Result<Pending<P, M>, Refused<NotConnected<P, M>>> {
        let checked = self.check_context(VERB, &qp.context()).and_then(|()| match param.ece {
            true => ece::tell(&mut self.core.id, &qp),
            false => Ok(()),
        });
        or_refused!(NotConnected::Unsent { id: self, qp }, checked);
        let mut c = param.to_c(qp.qp_num(), qp.has_srq());
        // SAFETY: in this state the id has a device. The private data lives in `param`.
        match unsafe { self.core.id.connect(&mut c) } {
            Ok(()) => {
                let (qp_num, tuning) = (qp.qp_num(), param.tuning());
                Ok(Pending { id: self.to(), qp, qp_num, tuning })
            }
            Err(errno) => {
                let (initiator, responder) = (c.initiator_depth, c.responder_resources);
                let asked = format!("initiator_depth {initiator}, responder_resources {responder}");
                let object = NotConnected::Unsent { id: self, qp };
                Err(Refused::new(object, Error::os(VERB, errno, asked)))
            }
        }
    }
}

impl<S: CmState> CmId<Tcp, S> {
    /// Connects `qp` to the peer, within `timeout` (`rdma_connect`). On iWARP the call itself may
    /// also wait for the TCP connection: with siw up to 130 s if no host answers.
    ///
    /// Receives that are posted to `qp` stay posted.
    ///
    /// # Errors
    /// The error contains the id and the queue pair, in the states that they reached
    /// ([`NotConnected`]).
    /// - [`Rejected`](crate::ErrorKind::Rejected): the peer rejected the request, or no program
    ///   listens ([R16.22](crate::guide::rules#r16-22)).
    /// - [`Cm`](crate::ErrorKind::Cm): the peer cannot be reached.
    /// - [`TimedOut`](crate::ErrorKind::TimedOut): the peer did not answer in time.
    /// - [`Os`](crate::ErrorKind::Os) with the errno of `rdma_connect`, `rdma_init_qp_attr`,
    ///   `ibv_modify_qp` or `rdma_establish`, and with `ece` also of the calls that query and set
    ///   the options ([`Ece`](crate::ext::tuning::Ece)). EINVAL of `rdma_connect`: a depth exceeds
    ///   the device's limit ([R16.16](crate::guide::rules#r16-16)), or `qp` is not on this id's
    ///   device.
    #[doc(alias("rdma_connect", "rdma_establish", "rdma_set_local_ece", "rdma_conn_param"))]
    #[doc(alias = "private_data_len")]
    pub fn connect<P: Profile>(
        self,
        qp: QueuePair<Rc, Init, P>,
        param: &ConnParam<P>,
        timeout: Duration,
    ) -> Result<Connection<P>, Refused<NotConnected<P>>>
    where
        Self: Allows<call::Connect>,
    {
        finish(self.to::<RouteResolved>().begin(qp, param)?, timeout)
    }
}

impl<S: CmState> CmId<Tcp, S, OnChannel> {
    /// Requests a connection of `qp` to the peer (`rdma_connect`). Receives that are posted to `qp`
    /// stay posted. On iWARP the call itself may wait for the TCP connection: with siw up to 130 s
    /// if no host answers.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_connect`. EINVAL: a depth exceeds the
    /// device's limit ([R16.16](crate::guide::rules#r16-16)), or `qp` is not on this id's device.
    /// The error contains the id and the queue pair, unchanged ([`NotConnected::Unsent`]).
    #[doc(alias("rdma_connect", "rdma_establish", "rdma_set_local_ece"))]
    pub fn connect<P: Profile>(
        self,
        qp: QueuePair<Rc, Init, P>,
        param: &ConnParam<P>,
    ) -> Result<Pending<P>, Refused<NotConnected<P, OnChannel>>>
    where
        Self: Allows<call::Connect>,
    {
        self.to::<RouteResolved>().begin(qp, param)
    }
}

impl<P: Profile, M: Mode> Pending<P, M> {
    /// The id. The event for this connection carries its [`key`](CmId::key).
    pub fn id(&self) -> &CmId<Tcp, Connecting, M> {
        &self.id
    }

    /// The queue pair, for posting receives. It cannot be replaced, because its number was sent to
    /// the peer.
    pub fn qp(&mut self) -> Receiving<'_, P> {
        Receiving(&mut self.qp)
    }

    /// Ends the attempt. The peer receives no further answer. Drain the returned queue pair.
    pub fn cancel(self) -> NotConnected<P, M> {
        NotConnected::Failed { id: self.id.to(), qp: self.qp.give_up() }
    }
}

impl<M: Mode> CmId<Tcp, Connecting, M> {
    /// Moves the queue pair to RTS and confirms (`rdma_establish`).
    #[allow(clippy::type_complexity)]
    fn establish<P: Profile>(
        &mut self,
        mut qp: QueuePair<Rc, Init, P>,
        tuning: Tuning,
        event: &Event,
    ) -> Result<(QueuePair<Rc, Rts, P>, PeerParam), Refused<QueuePair<Rc, Err, P>>> {
        let id = &mut self.core.id;
        let mut peer = event.peer_param().expect("an event of a connection");
        if event.kind() == EventKind::Established {
            // On iWARP no confirmation follows the answer, and the kernel has moved the queue pair
            // already. The event contains what this side serves as `initiator_depth`, unlike an
            // answer elsewhere.
            std::mem::swap(&mut peer.initiator_depth, &mut peer.responder_resources);
            let depth = tuning.initiator_depth.min(peer.initiator_depth);
            return brought_up(VERB, qp, depth).map(|qp| (qp, peer));
        }
        if tuning.ece {
            or_refused!(qp.give_up(), ece::take(id, &mut qp));
        }
        let qp = bring_up(id, qp, tuning)?;
        match id.establish() {
            Ok(()) => Ok((qp, peer)),
            Err(errno) => Err(Refused::new(qp.give_up(), Error::os("rdma_establish", errno, ""))),
        }
    }
}

impl<P: Profile, M: Mode> Waits for Pending<P, M> {
    type Done = Connection<P, M>;
    type Failed = NotConnected<P, M>;

    fn awaits(&self) -> Awaited<'_> {
        let is_iwarp = self.id.core.id.is_iwarp();
        Awaited::new(VERB, Waiting::Connect { is_iwarp }, &self.id.core)
    }

    fn done(self, event: &Event) -> Progress<Self::Done, Self, Self::Failed> {
        let Pending { mut id, qp, qp_num, tuning } = self;
        let established = if qp.qp_num() == qp_num {
            id.establish(qp, tuning, event)
        } else {
            let asked = "the queue pair was replaced by another one";
            Err(Refused::new(qp.give_up(), Error::os(VERB, libc::EINVAL, asked)))
        };
        match established {
            Ok((qp, peer)) => {
                let private_data = event.private_data().to_vec();
                Progress::Done(Connection { qp, id: id.to(), peer, private_data })
            }
            Err(refused) => {
                // The peer waits for a confirmation. If the rejection fails too, it waits until its
                // own timeout.
                let _ = id.core.id.reject(&[]);
                Progress::Failed(refused.map(|qp| NotConnected::Failed { id: id.to(), qp }))
            }
        }
    }

    fn give_up(self) -> Self::Failed {
        self.cancel()
    }
}

impl<P: Profile> Pending<P> {
    /// Processes an event of this id. When the peer has accepted, the queue pair moves to RTS and
    /// the connection is confirmed (`rdma_establish`). An event of another id changes nothing.
    ///
    /// [`Progress::Failed`] contains the queue pair, in the error state, and the error that
    /// `connect` of a synchronous id returns.
    pub fn advance(
        self,
        event: &Event,
    ) -> Progress<Connection<P, OnChannel>, Self, NotConnected<P, OnChannel>> {
        self.step(event)
    }
}

impl<P: Profile, M: Mode> fmt::Debug for NotConnected<P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotConnected::Unsent { id, qp } => write!(f, "Unsent({id:?}, {qp:?})"),
            NotConnected::Failed { id, qp } => write!(f, "Failed({id:?}, {qp:?})"),
        }
    }
}

impl_debug!([P: Profile, M: Mode] Pending<P, M>, |it| "Pending({:?}, {:?})", it.id, it.qp);
