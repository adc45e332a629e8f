//! The passive side, until a request is answered: `rdma_listen`, `rdma_get_request`, `rdma_reject`.

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

/// A peer's request for a connection, or on UDP for the queue pair number of a service. Dropping a
/// request rejects it.
pub struct Request<PS: PortSpace, M: Mode = Synchronous> {
    /// The id of the future connection.
    pub id: CmId<PS, Requested, M>,
    /// The peer's parameters; `None` on UDP.
    pub peer: Option<PeerParam>,
    /// The peer's private data, possibly padded with zeroes ([R16.15](crate::guide::rules#r16-15)).
    pub private_data: Vec<u8>,
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// Listens for connection requests, of which at most `backlog` can be pending (`rdma_listen`).
    /// A request is pending until its event is taken. Requests that a program or an
    /// `AsyncEventChannel` has taken but not answered do not count. 0 and numbers above the
    /// system's maximum, 1024 by default (`/proc/sys/net/rdma_ucm/max_backlog`), mean that maximum.
    ///
    /// If the backlog is full, a request is dropped, and sent again later. Linux does this after
    /// some seconds, so a short timeout of the client may expire first, and newer requests may be
    /// accepted earlier. A fabric does this when the program waits for the next event. On iWARP and
    /// on UDP the request is rejected instead.
    ///
    /// A request stays in the backlog even if its client is gone. Answering such a request fails:
    /// `create_qp`, `accept` and `reject` fail with EINVAL; on iWARP, `accept` and `reject` fail
    /// with ECONNRESET.
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_listen` and the address. EADDRINUSE: another
    /// id listens there. The error contains the id, which is still bound.
    #[doc(alias = "rdma_listen")]
    pub fn listen(mut self, backlog: u32) -> Result<CmId<PS, Listening, M>, Refused<Self>>
    where
        Self: Allows<call::Listen>,
    {
        let listens = self.core.id.listen(backlog.min(i32::MAX as u32) as i32);
        let refused = |errno| {
            let asked = self.local_addr().map(|address| address.to_string());
            Error::os("rdma_listen", errno, asked.unwrap_or_default())
        };
        or_refused!(self, listens.map_err(refused));
        self.core.look();
        Ok(self.to())
    }

    /// Returns the next connection request (`rdma_get_request`). Waits **forever** if none comes.
    /// The id of the request is synchronous too. Several threads can take requests from one id.
    ///
    /// # Errors
    /// - [`Cm`](ErrorKind::Cm): the device is being removed. Every waiting thread and every later
    ///   call gets this error.
    /// - [`Os`](ErrorKind::Os) with the errno of `rdma_get_cm_event` or poll(2).
    /// - As for [`into_synchronous`](Self::into_synchronous) of the request's id. The request is
    ///   then rejected.
    #[doc(alias = "rdma_get_request")]
    pub fn get_request(&self) -> Result<Request<PS>, Error>
    where
        Self: Allows<call::GetRequest>,
    {
        loop {
            // Without a deadline, the result is a request or an error.
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
    /// Returns the connection request in an event of this id.
    ///
    /// # Errors
    /// The event, if it is not a connection request of this id, or if librdmacm found no device for
    /// the request.
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
    /// Moves the request to `channel` (`rdma_migrate_id`), so that it can be answered there while
    /// other requests arrive. `AsyncEventChannel` has an example.
    ///
    /// # Errors
    /// As for [`CmId::migrate_to`]. The error contains the request.
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

    /// Rejects the request, with private data for the peer (`rdma_reject`).
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_reject`. The error contains the request,
    /// unanswered.
    #[doc(alias = "rdma_reject")]
    pub fn reject(mut self, private_data: &PS::RejectData) -> Result<(), Refused<Self>> {
        let id: &mut Id = &mut self.id.core.id;
        let rejected = id.reject(private_data);
        rejected.map_err(|errno| Refused::new(self, Error::os("rdma_reject", errno, "")))
    }
}

impl_debug!([PS: PortSpace, M: Mode] Request<PS, M>, |it|
    "Request({:?}, {} bytes)", it.id, it.private_data.len());

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::turn::Turn;

    /// librdmacm may find no device for a request. The event is then returned with the id. Dropping
    /// the id rejects the request.
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

    /// The event comes once. Each thread that waits gets the error, whichever thread took the
    /// event.
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

    /// Several threads wait for an event that one of them takes. All get it.
    #[test]
    fn what_one_is_told_all_learn() {
        let (turn, asked, told) = (Turn::new(), AtomicU32::new(0), std::sync::OnceLock::new());
        let wait = || {
            let _turn = turn.take(None).unwrap();
            // The first thread takes the event.
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

    /// A thread with a timeout does not wait longer for another thread's turn.
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
            panic!("during a turn");
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        assert!(turn.take(Some(Instant::now())).is_some());
    }
}
