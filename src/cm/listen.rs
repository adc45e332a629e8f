//! The passive side, up to the answer: `rdma_listen`, `rdma_get_request`, `rdma_reject`.

use std::time::{Duration, Instant};

use super::channel::{EventChannel, Events};
use super::event::{Event, PeerParam};
use super::id::{CmId, Core};
use super::space::PortSpace;
use super::state::{CmState, Listening, Mode, OnChannel, Requested, Synchronous};
use crate::allows::{Allows, call};
use crate::sys::cm::Id;
use crate::terms::error::{Error, ErrorKind, Refused};

const GET_REQUEST: &str = "rdma_get_request";

/// A peer's request for a connection (on UDP: for the queue pair of a service). Dropping it rejects
/// it.
pub struct Request<PS: PortSpace, M: Mode = Synchronous> {
    /// The id of the connection to be.
    pub id: CmId<PS, Requested, M>,
    /// The peer's parameters; `None` on UDP.
    pub peer: Option<PeerParam>,
    /// The peer's private data, perhaps padded with zeroes ([R16.15](crate::guide::rules#r16-15)).
    pub private_data: Vec<u8>,
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// Listens for connection requests, of which at most `backlog` wait (`rdma_listen`). One waits
    /// until its event is taken: what a program, or an `AsyncEventChannel`, takes and keeps without
    /// an answer is not counted any more.
    ///
    /// A request that finds the backlog full is dropped, and its client asks again. Linux does so
    /// after some seconds, so a short time-out may expire before, and newer requests come first. A
    /// fabric does so when the program waits for the next event. On iWARP and on UDP the request is
    /// refused.
    ///
    /// A request whose client has gone stays in the backlog. Answering it fails: `create_qp`,
    /// `accept` and `reject` with EINVAL, and on iWARP `accept` and `reject` with ECONNRESET.
    ///
    /// # Errors
    /// The id is given back, bound: [`Os`](ErrorKind::Os) with the errno of `rdma_listen` and the
    /// address. EADDRINUSE: another id listens there.
    #[doc(alias = "rdma_listen")]
    pub fn listen(mut self, backlog: u32) -> Result<CmId<PS, Listening, M>, Refused<Self>>
    where
        Self: Allows<call::Listen>,
    {
        match self.core.id.listen(backlog.min(i32::MAX as u32) as i32) {
            Ok(()) => {
                self.core.look();
                Ok(self.to())
            }
            Err(errno) => {
                let asked = self.local_addr().map(|address| address.to_string());
                let error = Error::os("rdma_listen", errno, asked.unwrap_or_default());
                Err(Refused::new(self, error))
            }
        }
    }

    /// The next connection request (`rdma_get_request`); waits **for ever** if none comes. Its id
    /// is synchronous too. Several threads may take requests from one id.
    ///
    /// # Errors
    /// [`Cm`](ErrorKind::Cm), in each thread and from then on, if the device is going away;
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_get_cm_event` or poll(2); for the request's id
    /// as for [`into_synchronous`](Self::into_synchronous), and then the request is rejected.
    #[doc(alias = "rdma_get_request")]
    pub fn get_request(&self) -> Result<Request<PS>, Error>
    where
        Self: Allows<call::GetRequest>,
    {
        loop {
            // Without a deadline there is a request or an error.
            if let Some(request) = self.next_request(None)? {
                return Ok(request);
            }
        }
    }

    /// Like [`get_request`](Self::get_request), for at most `timeout`.
    ///
    /// # Errors
    /// As for [`get_request`](Self::get_request), and [`TimedOut`](ErrorKind::TimedOut).
    pub fn get_request_timeout(&self, timeout: Duration) -> Result<Request<PS>, Error>
    where
        Self: Allows<call::GetRequest>,
    {
        let timed_out = || Error::new(GET_REQUEST, ErrorKind::TimedOut { after: timeout });
        self.next_request(Instant::now().checked_add(timeout))?.ok_or_else(timed_out)
    }

    fn next_request(&self, deadline: Option<Instant>) -> Result<Option<Request<PS>>, Error> {
        let Some(turn) = self.core.turn.take(deadline) else { return Ok(None) };
        let mut events = Events::until(self.core.id.channel(), deadline);
        loop {
            self.core.removal(GET_REQUEST)?;
            let Some(event) = events.next()? else { return Ok(None) };
            if let Ok(request) = Request::from_event(event) {
                drop(turn);
                return request.into_synchronous().map(Some);
            }
        }
    }
}

impl<PS: PortSpace> CmId<PS, Listening, OnChannel> {
    /// The connection request of an event of this id.
    ///
    /// # Errors
    /// Any other event is given back, and so is a request for which librdmacm found no device.
    pub fn request(&self, event: Event) -> Result<Request<PS, OnChannel>, Event> {
        if event.id() != self.key() {
            return Err(event);
        }
        Request::from_event(event)
    }
}

impl<PS: PortSpace> Request<PS, OnChannel> {
    /// The request in an event of a listening id of this port space.
    fn from_event(mut event: Event) -> Result<Self, Event> {
        let Some(id) = event.copied.request.take() else { return Err(event) };
        let mut core = Core::new(id);
        core.look();
        if core.device.is_none() {
            // librdmacm found no device for it, so it cannot be answered.
            event.copied.request = Some(core.id);
            return Err(event);
        }
        let (peer, private_data) = (event.peer_param(), std::mem::take(&mut event.copied.data));
        Ok(Request { id: CmId::from_core(core), peer, private_data })
    }

    fn into_synchronous(self) -> Result<Request<PS>, Error> {
        let Request { id, peer, private_data } = self;
        Ok(Request { id: id.into_synchronous()?, peer, private_data })
    }
}

impl<PS: PortSpace, M: Mode> Request<PS, M> {
    /// Moves the request to `channel` (`rdma_migrate_id`), so that it is answered there while
    /// others come. `AsyncEventChannel` has an example.
    ///
    /// # Errors
    /// The request is given back, as for [`CmId::migrate_to`].
    pub fn migrate_to(
        self,
        channel: &EventChannel,
    ) -> Result<Request<PS, OnChannel>, Refused<Self>> {
        let Request { id, peer, private_data } = self;
        match id.migrate_to(channel) {
            Ok(id) => Ok(Request { id, peer, private_data }),
            Err(refused) => Err(refused.map(|id| Request { id, peer, private_data })),
        }
    }

    /// Refuses the connection, with private data for the peer (`rdma_reject`).
    ///
    /// # Errors
    /// The request is given back, unanswered: [`Os`](ErrorKind::Os) with the errno of
    /// `rdma_reject`.
    #[doc(alias = "rdma_reject")]
    pub fn reject(mut self, private_data: &PS::RejectData) -> Result<(), Refused<Self>> {
        let id: &mut Id = &mut self.id.core.id;
        let rejected = id.reject(private_data);
        rejected.map_err(|errno| Refused::new(self, Error::os("rdma_reject", errno, "")))
    }
}

impl_debug!([PS: PortSpace, M: Mode] Request<PS, M>, |it|
    "Request({:?}, {} bytes)", it.id, it.private_data.len());

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::turn::Turn;

    /// librdmacm may find no device for a request: then its event is given back, with the id whose
    /// end rejects it.
    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn a_request_without_a_device_is_given_back() {
        use crate::cm::space::Tcp;
        use crate::provider_tests::cm as stub;
        use crate::sys::types::raw::rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST;
        let listening = CmId::<Tcp, Listening, OnChannel>::from_core(Core::new(stub::noting(7)));
        let mut copied = stub::event(7, 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
        copied.request = Some(stub::noting(8));
        let event = listening.request(Event { copied }).unwrap_err();
        assert_eq!(stub::seen(), [""; 0], "it is not rejected yet");
        assert_eq!(event.copied.request.as_ref().map(Id::key), Some(8));
        drop(event);
        assert_eq!(stub::seen(), ["destroy_id", "destroy_event_channel"]);
    }

    /// The event comes once; each thread that asks is told, whoever took it.
    #[test]
    fn every_thread_is_told_that_the_device_goes() {
        use crate::cm::space::Tcp;
        use crate::provider_tests::cm as stub;
        use crate::sys::types::raw::rdma_cm_event_type as Type;
        let saw = Some((Type::RDMA_CM_EVENT_DEVICE_REMOVAL, -19));
        let id = CmId::<Tcp, Listening>::from_core(Core::new(stub::id(7, saw)));
        let told = || {
            let expected = ErrorKind::Cm { event: "RDMA_CM_EVENT_DEVICE_REMOVAL", status: -19 };
            let far = Duration::from_secs(60);
            let errors = [id.get_request(), id.get_request_timeout(far)].map(Result::unwrap_err);
            errors.iter().all(|error| *error.kind() == expected)
        };
        thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(told));
            assert!(threads.map(|thread| thread.join().unwrap()).iter().all(|told| *told));
        });
        std::mem::forget(id);
    }

    /// Several threads wait for what one of them is told: all learn of it.
    #[test]
    fn what_one_is_told_all_learn() {
        let (turn, asked, told) = (Turn::new(), AtomicU32::new(0), std::sync::OnceLock::new());
        let wait = || {
            let _turn = turn.take(None).unwrap();
            // The event is taken by the first.
            *told.get_or_init(|| asked.fetch_add(1, Ordering::Relaxed))
        };
        thread::scope(|scope| {
            let first = turn.take(None).unwrap();
            let threads = [(); 4].map(|()| scope.spawn(wait));
            drop(first);
            assert_eq!(threads.map(|thread| thread.join().unwrap()), [0; 4]);
        });
        assert_eq!(asked.into_inner(), 1);
    }

    /// A thread whose wait has a time does not wait longer for another thread's turn.
    #[test]
    fn a_turn_that_others_have_is_waited_for_until_the_deadline() {
        let turn = Turn::new();
        let taken = turn.take(Some(Instant::now())).expect("free, so the time does not matter");
        let began = Instant::now();
        assert!(turn.take(Some(began)).is_none());
        let end = began + Duration::from_millis(20);
        assert!(turn.take(Some(end)).is_none());
        assert!(Instant::now() >= end);
        drop(taken);
        assert!(turn.take(Some(began)).is_some());
    }

    /// A panic gives the turn back.
    #[test]
    fn a_turn_is_given_back_by_a_panic() {
        let turn = Turn::new();
        let panics = || {
            let _turn = turn.take(None);
            panic!("amid a turn");
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        assert!(turn.take(Some(Instant::now())).is_some());
    }
}
