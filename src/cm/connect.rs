//! The active side: `rdma_connect`.

#![allow(unsafe_code)] // one call that needs a device

use std::fmt;
use std::time::Duration;

use super::connection::Connection;
use super::event::{Event, EventKind};
use super::id::{CmId, Step, Waits, failure};
use super::param::{ConnParam, Tuning};
use super::queue_pair::bring_up;
use super::space::Tcp;
use super::state::{
    CmState, Connecting, Connects, Mode, OnChannel, RouteResolved, Spent, Synchronous,
};
use crate::error::{Error, Refused};
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::state::{Error as Failed, Init};
use crate::sys::cm::Id;
use crate::transport::Rc;

const VERB: &str = "rdma_connect";

/// A connection attempt that failed, with everything that went into it.
pub enum NotConnected<P: Profile = DefaultProfile, M: Mode = Synchronous> {
    /// The call was refused and nothing was sent: both are as they were.
    Unsent {
        /// The id.
        id: CmId<Tcp, RouteResolved, M>,
        /// The queue pair.
        qp: QueuePair<Rc, Init, P>,
    },
    /// The peer, or the time, decided against it.
    Failed {
        /// The id, of no further use.
        id: CmId<Tcp, Spent, M>,
        /// The queue pair, in the error state: [`drain`](QueuePair::drain) brings its receives home, and after
        /// a [`reset`](QueuePair::reset) [`init_qp`](CmId::init_qp) makes it ready for another id.
        qp: QueuePair<Rc, Failed, P>,
    },
}

/// A connection that was asked for, on its way.
pub struct Pending<P: Profile = DefaultProfile, M: Mode = OnChannel> {
    id: CmId<Tcp, Connecting, M>,
    qp: QueuePair<Rc, Init, P>,
    /// What the peer was told.
    qp_num: u32,
    tuning: Tuning,
}

impl<M: Mode> CmId<Tcp, RouteResolved, M> {
    fn begin<P: Profile>(
        mut self,
        qp: QueuePair<Rc, Init, P>,
        param: &ConnParam<P>,
    ) -> Result<Pending<P, M>, Refused<NotConnected<P, M>>> {
        let mut c = param.to_c(qp.qp_num(), qp.has_srq());
        // SAFETY: in this state the id has a device; the private data lives in `param`.
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
    /// Connects `qp` to the peer, within `timeout` (`rdma_connect`).
    ///
    /// What is posted to its receive queue stays posted. If the peer rejects, is not there or does not answer in
    /// time, everything comes back (see [`NotConnected`]).
    pub fn connect<P: Profile>(
        self,
        qp: QueuePair<Rc, Init, P>,
        param: &ConnParam<P>,
        timeout: Duration,
    ) -> Result<Connection<P>, Refused<NotConnected<P>>>
    where
        S: Connects,
    {
        self.to::<RouteResolved>().begin(qp, param)?.finish(Some(timeout))
    }
}

impl<S: CmState> CmId<Tcp, S, OnChannel> {
    /// Asks the peer for a connection with `qp` (`rdma_connect`). What is posted to its receive queue stays
    /// posted.
    pub fn connect<P: Profile>(
        self,
        qp: QueuePair<Rc, Init, P>,
        param: &ConnParam<P>,
    ) -> Result<Pending<P>, Refused<NotConnected<P, OnChannel>>>
    where
        S: Connects,
    {
        self.to::<RouteResolved>().begin(qp, param)
    }
}

impl<P: Profile, M: Mode> Pending<P, M> {
    /// The id.
    pub fn id(&self) -> &CmId<Tcp, Connecting, M> {
        &self.id
    }

    /// The queue pair, to post receives. It must stay the same one, whose number the peer was told.
    pub fn qp(&mut self) -> &mut QueuePair<Rc, Init, P> {
        &mut self.qp
    }

    /// Gives the attempt up: the peer gets no further answer.
    pub fn cancel(self) -> NotConnected<P, M> {
        NotConnected::Failed { id: self.id.to(), qp: self.qp.give_up() }
    }

    /// Moves the queue pair to RTS and confirms (`rdma_establish`).
    fn establish(self, event: &Event) -> Step<Connection<P, M>, Self, NotConnected<P, M>> {
        let Pending { mut id, qp, qp_num, tuning } = self;
        let failed = |mut id: CmId<Tcp, Connecting, M>, qp, error| {
            // The peer waits for a confirmation; if even this is refused, it will wait in vain.
            let _ = id.core.id.reject(&[]);
            Step::Failed(Refused::new(NotConnected::Failed { id: id.to(), qp }, error))
        };
        if qp.qp_num() != qp_num {
            let asked = "the queue pair was exchanged for another one";
            return failed(id, qp.give_up(), Error::os(VERB, libc::EINVAL, asked));
        }
        let qp = match bring_up(VERB, &id.core.id, qp, tuning) {
            Ok(qp) => qp,
            Err(refused) => return failed(id, refused.object, refused.error),
        };
        if let Err(errno) = id.core.id.establish() {
            return failed(id, qp.give_up(), Error::os("rdma_establish", errno, ""));
        }
        let peer = event.peer_param().expect("an event of a connection");
        let private_data = event.private_data().to_vec();
        Step::Done(Connection { qp, id: id.to(), peer, private_data })
    }
}

impl<P: Profile, M: Mode> Waits for Pending<P, M> {
    type Done = Connection<P, M>;
    type Failed = NotConnected<P, M>;
    const VERB: &'static str = VERB;

    fn id(&self) -> &Id {
        &self.id.core.id
    }

    fn step(self, event: &Event) -> Step<Self::Done, Self, Self::Failed> {
        if event.id() != self.id.key() {
            return Step::Waiting(self);
        }
        match (event.kind(), event.status()) {
            (EventKind::ConnectResponse, 0) => self.establish(event),
            (
                EventKind::ConnectResponse
                | EventKind::Rejected
                | EventKind::Unreachable
                | EventKind::ConnectError
                | EventKind::Disconnected
                | EventKind::DeviceRemoval,
                _,
            ) => Step::Failed(Refused::new(self.give_up(), failure(VERB, event))),
            _ => Step::Waiting(self),
        }
    }

    fn give_up(self) -> Self::Failed {
        self.cancel()
    }
}

impl<P: Profile> Pending<P> {
    /// Moves on by an event of this id: when the peer accepted, the queue pair is moved to RTS and the peer is
    /// told (`rdma_establish`).
    pub fn advance(
        self,
        event: &Event,
    ) -> Step<Connection<P, OnChannel>, Self, NotConnected<P, OnChannel>> {
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

impl<P: Profile, M: Mode> fmt::Debug for Pending<P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({:?}, {:?})", self.id, self.qp)
    }
}
