//! The passive side, up to the answer: `rdma_listen`, `rdma_get_request`, `rdma_reject`.

use std::fmt;
use std::time::{Duration, Instant};

use super::channel::Events;
use super::event::{Event, EventKind, PeerParam};
use super::id::{CmId, Core};
use super::space::PortSpace;
use super::state::{
    CmState, Listening, Listens, Mode, OnChannel, Requested, Synchronous, TakesRequests,
    WaitsInCalls,
};
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
    /// The peer's private data, perhaps padded with zeroes (R16.15).
    pub private_data: Vec<u8>,
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// Listens for connection requests, of which at most `backlog` wait (`rdma_listen`).
    ///
    /// # Errors
    /// The id is given back, bound: [`Os`](ErrorKind::Os) with the errno of `rdma_listen` and the
    /// address. EADDRINUSE: another id listens there.
    pub fn listen(mut self, backlog: u32) -> Result<CmId<PS, Listening, M>, Refused<Self>>
    where
        S: Listens,
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
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// The next connection request (`rdma_get_request`); waits **for ever** if none comes. Its id
    /// is synchronous too. Several threads may take requests from one id.
    ///
    /// # Errors
    /// [`Cm`](ErrorKind::Cm), from then on, if the device is going away; [`Os`](ErrorKind::Os) with
    /// the errno of `rdma_get_cm_event` or poll(2); for the request's id as for
    /// [`into_synchronous`](Self::into_synchronous).
    pub fn get_request(&self) -> Result<Request<PS>, Error>
    where
        S: TakesRequests,
        M: WaitsInCalls,
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
        S: TakesRequests,
        M: WaitsInCalls,
    {
        let timed_out = || Error::new(GET_REQUEST, ErrorKind::TimedOut { after: timeout });
        self.next_request(Instant::now().checked_add(timeout))?.ok_or_else(timed_out)
    }

    fn next_request(&self, deadline: Option<Instant>) -> Result<Option<Request<PS>>, Error> {
        let mut events = Events::until(self.core.id.channel(), deadline);
        loop {
            self.core.seen.removal(GET_REQUEST)?;
            let Some(event) = events.next()? else { return Ok(None) };
            match event.kind() {
                EventKind::ConnectRequest => {
                    if let Ok(request) = Request::from_event(event) {
                        return request.into_synchronous().map(Some);
                    }
                }
                other => self.core.seen.see(other, event.status()),
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
    /// Refuses the connection, with private data for the peer (`rdma_reject`).
    ///
    /// # Errors
    /// The request is given back, unanswered: [`Os`](ErrorKind::Os) with the errno of
    /// `rdma_reject`.
    pub fn reject(mut self, private_data: &PS::RejectData) -> Result<(), Refused<Self>> {
        let id: &mut Id = &mut self.id.core.id;
        match id.reject(private_data) {
            Ok(()) => Ok(()),
            Err(errno) => Err(Refused::new(self, Error::os("rdma_reject", errno, ""))),
        }
    }
}

impl<PS: PortSpace, M: Mode> fmt::Debug for Request<PS, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({:?}, {} bytes)", self.id, self.private_data.len())
    }
}
