//! Accepting a request: `rdma_accept`.

#![allow(unsafe_code)] // one call that needs a device

use std::fmt;
use std::time::Duration;

use super::connection::Connection;
use super::ece;
use super::event::{Event, PeerParam};
use super::id::CmId;
use super::listen::Request;
use super::param::{AcceptParam, check_depth};
use super::queue_pair::{Moved, bring_up, brought_up};
use super::space::Tcp;
use super::state::{Accepting, Mode, OnChannel, Requested, Synchronous, Unusable};
use super::table::Waiting;
use super::waits::{Awaited, Progress, Waits, finish};
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::sys::cm::Id;
use crate::terms::error::{Error, Refused};
use crate::terms::state::{Err, Init, Rts};
use crate::terms::transport::Rc;

const VERB: &str = "rdma_accept";

/// An `accept` that failed, with everything that was passed to it.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
///
/// fn accept(request: Request<Tcp>, qp: QueuePair<Rc, Init>) -> Option<Connection> {
///     let accepted =
///         request.accept(qp, &AcceptParam::default(), std::time::Duration::from_secs(1));
///     match accepted.map_err(Refused::into_parts) {
///         Ok(connection) => return Some(connection),
///         Err((NotAccepted::Unanswered { request, qp }, error)) => {
///             eprintln!("{error}: the peer is told");
///             let _ = request.reject(&RejectData::none());
///             drop(qp); // unchanged, can serve another request
///         }
///         Err((NotAccepted::Failed { qp, .. }, error)) => {
///             eprintln!("{error}: {qp:?} is to be drained");
///         }
///     }
///     None
/// }
/// ```
pub enum NotAccepted<P: Profile = DefaultProfile, M: Mode = Synchronous> {
    /// No answer was sent. The request can still be accepted with other parameters, or rejected.
    Unanswered {
        /// The request.
        request: Request<Tcp, M>,
        /// The queue pair.
        qp: QueuePair<Rc, Init, P>,
    },
    /// The connection was not established.
    Failed {
        /// The id, which can only be destroyed.
        id: CmId<Tcp, Unusable, M>,
        /// The queue pair, in the error state. [`drain`](QueuePair::drain) returns its receives.
        qp: QueuePair<Rc, Err, P>,
    },
}

/// A connection that was accepted, but that the peer has not confirmed yet.
/// [`advance`](Self::advance) processes the event with the confirmation.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
///
/// fn on_event(accepted: Accepted, event: &Event) -> Option<Accepted> {
///     println!("{:?} is about {:?}", event, accepted.id());
///     match accepted.advance(event) {
///         Progress::Done(Connection { qp, .. }) => println!("{qp:?} is connected"),
///         Progress::Waiting(accepted) if event.kind() == EventKind::AddrChange => {
///             accepted.cancel(); // gives it up
///         }
///         Progress::Waiting(accepted) => return Some(accepted),
///         Progress::Failed(refused) => eprintln!("{refused}"),
///     }
///     None
/// }
/// ```
pub struct Accepted<P: Profile = DefaultProfile, M: Mode = OnChannel> {
    id: CmId<Tcp, Accepting, M>,
    qp: QueuePair<Rc, Rts, P>,
    peer: PeerParam,
    private_data: Vec<u8>,
}

impl<M: Mode> Request<Tcp, M> {
    pub(super) fn begin<P: Profile>(
        mut self,
        mut qp: QueuePair<Rc, Init, P>,
        param: &AcceptParam<P>,
    ) -> Result<Accepted<P, M>, Refused<NotAccepted<P, M>>> {
        // If the program removed the parameters, the peer requests nothing.
        let peer = self.peer.unwrap_or_default();
        let prepared = self.prepare(&mut qp, param.ece, &peer);
        or_refused!(NotAccepted::Unanswered { request: self, qp }, prepared);
        let Request { mut id, private_data, .. } = self;
        match id.answer(qp, param, &peer) {
            Ok(qp) => Ok(Accepted { id: id.to(), qp, peer, private_data }),
            Err(refused) => Err(refused.map(|qp| NotAccepted::Failed { id: id.to(), qp })),
        }
    }

    /// The checks before the answer.
    fn prepare<P: Profile>(
        &mut self,
        qp: &mut QueuePair<Rc, Init, P>,
        ece: bool,
        peer: &PeerParam,
    ) -> Result<(), Error> {
        self.id.check_context(VERB, &qp.context())?;
        let id = &mut self.id.core.id;
        if id.is_iwarp() {
            check_depth::<P>(VERB, peer.initiator_depth)?;
        }
        if ece && ece::take(id, qp)? {
            ece::tell(id, qp)?;
        }
        Ok(())
    }
}

impl<M: Mode> CmId<Tcp, Requested, M> {
    /// Accepts, and moves the queue pair to RTS.
    fn answer<P: Profile>(
        &mut self,
        qp: QueuePair<Rc, Init, P>,
        param: &AcceptParam<P>,
        peer: &PeerParam,
    ) -> Moved<Rc, Rts, Err, P> {
        let id = &mut self.core.id;
        let tuning = param.tuning().within(peer);
        let mut c = param.to_c(qp.qp_num(), qp.has_srq());
        c.initiator_depth = tuning.initiator_depth;
        c.responder_resources = tuning.responder_resources;
        let mut accept = |id: &mut Id| {
            // SAFETY: requests have a device. The private data lives in `param`.
            unsafe { id.accept(&mut c) }.map_err(|errno| Error::os(VERB, errno, ""))
        };
        if id.is_iwarp() {
            // The kernel moves the queue pair during the call.
            or_refused!(qp.give_up(), accept(id));
            return brought_up(VERB, qp, tuning.initiator_depth);
        }
        // Before the answer, because the peer may send as soon as it receives it.
        let qp = bring_up(id, qp, tuning)?;
        or_refused!(qp.give_up(), accept(id));
        Ok(qp)
    }
}

impl Request<Tcp> {
    /// Accepts the connection with `qp`, and waits for the peer's confirmation, at most `timeout`
    /// (`rdma_accept`).
    ///
    /// Post receives first, because the peer may send at once ([R7.12](crate::guide::rules#r7-12));
    /// they stay posted. The peer may not serve READs: see [the
    /// module](super#peers-that-serve-no-reads).
    ///
    /// # Errors
    /// The error contains the request or the id, and the queue pair ([`NotAccepted`]).
    /// - [`TimedOut`](crate::ErrorKind::TimedOut), [`Rejected`](crate::ErrorKind::Rejected) or
    ///   [`Cm`](crate::ErrorKind::Cm): the peer did not confirm.
    /// - [`Os`](crate::ErrorKind::Os) with the errno of `rdma_accept`, `rdma_init_qp_attr` or
    ///   `ibv_modify_qp`. EINVAL with [`Unanswered`](NotAccepted::Unanswered): `qp` is not on the
    ///   request's device, or with `ece` the peer offers options of another vendor's device. With
    ///   `ece`, no answer is sent if the queue pair does not support the offered options.
    /// - [`Limit`](crate::ErrorKind::Limit) with [`Unanswered`](NotAccepted::Unanswered): on iWARP,
    ///   the peer serves no READs, and the profile of `qp` has them
    ///   ([R4.6](crate::guide::rules#r4-6)).
    #[doc(alias = "rdma_accept")]
    pub fn accept<P: Profile>(
        self,
        qp: QueuePair<Rc, Init, P>,
        param: &AcceptParam<P>,
        timeout: Duration,
    ) -> Result<Connection<P>, Refused<NotAccepted<P>>> {
        finish(self.begin(qp, param)?, timeout)
    }
}

impl Request<Tcp, OnChannel> {
    /// Accepts the connection with `qp` (`rdma_accept`). The peer's confirmation is an event for
    /// [`Accepted::advance`].
    ///
    /// Post receives first, because the peer may send at once ([R7.12](crate::guide::rules#r7-12));
    /// they stay posted. The peer may not serve READs: see [the
    /// module](super#peers-that-serve-no-reads).
    ///
    /// # Errors
    /// The error contains the request or the id, and the queue pair ([`NotAccepted`]).
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_accept`, `rdma_init_qp_attr` or
    /// `ibv_modify_qp`. EINVAL with [`Unanswered`](NotAccepted::Unanswered): `qp` is not on the
    /// request's device. On iWARP and with `ece`, the same errors occur as for a synchronous id.
    #[doc(alias = "rdma_accept")]
    pub fn accept<P: Profile>(
        self,
        qp: QueuePair<Rc, Init, P>,
        param: &AcceptParam<P>,
    ) -> Result<Accepted<P>, Refused<NotAccepted<P, OnChannel>>> {
        self.begin(qp, param)
    }
}

impl<P: Profile, M: Mode> Accepted<P, M> {
    /// The id. Its [`key`](CmId::key) is the key of the event.
    pub fn id(&self) -> &CmId<Tcp, Accepting, M> {
        &self.id
    }

    /// Ends the attempt. Drain the returned queue pair.
    pub fn cancel(self) -> NotAccepted<P, M> {
        NotAccepted::Failed { id: self.id.to(), qp: self.qp.give_up() }
    }
}

impl<P: Profile, M: Mode> Waits for Accepted<P, M> {
    type Done = Connection<P, M>;
    type Failed = NotAccepted<P, M>;

    fn awaits(&self) -> Awaited<'_> {
        Awaited::new(VERB, Waiting::Accept, &self.id.core)
    }

    fn done(self, _: &Event) -> Progress<Self::Done, Self, Self::Failed> {
        let Accepted { id, qp, peer, private_data } = self;
        Progress::Done(Connection { qp, id: id.to(), peer, private_data })
    }

    fn give_up(self) -> Self::Failed {
        self.cancel()
    }
}

impl<P: Profile> Accepted<P> {
    /// Processes an event of this id. ESTABLISHED completes the connection. An event of another id
    /// changes nothing.
    ///
    /// [`Progress::Failed`] contains the queue pair, in the error state, and
    /// [`Rejected`](crate::ErrorKind::Rejected) or [`Cm`](crate::ErrorKind::Cm) with the event.
    pub fn advance(
        self,
        event: &Event,
    ) -> Progress<Connection<P, OnChannel>, Self, NotAccepted<P, OnChannel>> {
        self.step(event)
    }
}

impl<P: Profile, M: Mode> fmt::Debug for NotAccepted<P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAccepted::Unanswered { request, qp } => {
                write!(f, "Unanswered({request:?}, {qp:?})")
            }
            NotAccepted::Failed { id, qp } => write!(f, "Failed({id:?}, {qp:?})"),
        }
    }
}

impl_debug!([P: Profile, M: Mode] Accepted<P, M>, |it| "Accepted({:?}, {:?})", it.id, it.qp);
