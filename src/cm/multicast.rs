//! Multicast groups: `rdma_join_multicast`, `rdma_leave_multicast`.

#![allow(unsafe_code)] // one call that needs a device

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::channel::Events;
use super::datagram::UdPeer;
use super::event::{Event, EventKind, IdKey};
use super::id::{CmId, Step, failure};
use super::space::Udp;
use super::state::{AddrResolved, Mode, OnChannel};
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::sys::cm::Failed;
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::gid::Gid;
use crate::terms::state::State;
use crate::terms::transport::Ud;

const VERB: &str = "rdma_join_multicast";

/// A group that an id joined. [`leave_multicast`](CmId::leave_multicast) leaves it, and so does
/// destroying the id.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (second, at) = (Duration::from_secs(1), "239.77.0.1:7471".parse()?);
/// let id = CmId::<Udp, _>::new()?.bind_addr("10.77.0.1:0".parse()?)?;
/// let mut id = id.resolve_addr(at, second)?;
/// let (context, pd) = (id.context()?, id.pd()?);
/// let cq = context.create_cq(32)?;
/// let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 8, recv: 8 })?;
///
/// let group = id.join_multicast(at, second)?;
/// println!("{} is {:?}", group.address, group.gid());
/// group.attach(&mut qp)?; // to receive from it
/// let address_handle = qp.add_address_handle(pd.create_ah(group.peer.vector)?)?;
/// qp.post_send(wr::Send::inline(b"to all").to(group.peer.destination(address_handle)))?;
/// // ... poll `cq` ...
/// assert!(group.detach(&mut qp)?);
/// id.leave_multicast(group)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Group {
    key: u64,
    /// The group's IP address.
    pub address: SocketAddr,
    /// The destination of messages to the group.
    pub peer: UdPeer,
}

/// A group that is being joined.
#[derive(Debug)]
pub struct Joining {
    id: IdKey,
    key: u64,
    address: SocketAddr,
    failed: Failed,
}

impl<M: Mode> CmId<Udp, AddrResolved, M> {
    fn begin_join(&mut self, address: SocketAddr) -> Result<Joining, Error> {
        // SAFETY: in this state the id has a device.
        match unsafe { self.core.id.join(address) } {
            Ok((key, failed)) => Ok(Joining { id: self.key(), key, address, failed }),
            Err(libc::EADDRINUSE) => {
                let asked = format!("this id joined {} already: leave it first", address.ip());
                Err(Error::os(VERB, libc::EADDRINUSE, asked))
            }
            Err(errno) => Err(Error::os(VERB, errno, address.to_string())),
        }
    }

    /// Leaves a group (`rdma_leave_multicast`). The program has to detach the queue pairs that it
    /// attached.
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os): EADDRNOTAVAIL if another id joined the group, or the errno of
    /// `rdma_leave_multicast`.
    pub fn leave_multicast(&mut self, group: Group) -> Result<(), Error> {
        const VERB: &str = "rdma_leave_multicast";
        match self.core.id.leave(group.key) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::os(VERB, libc::EADDRNOTAVAIL, "another id joined it")),
            Err(errno) => Err(Error::os(VERB, errno, group.address.to_string())),
        }
    }
}

impl CmId<Udp, AddrResolved> {
    /// Joins the group of an IP address, within `timeout` (`rdma_join_multicast`). To receive from
    /// it, attach queue pairs with [`Group::attach`]. The id must have resolved an address by the
    /// same device: resolve the group's own.
    ///
    /// # Errors
    /// [`Cm`](ErrorKind::Cm) if the group cannot be joined, [`TimedOut`](ErrorKind::TimedOut), or
    /// [`Os`](ErrorKind::Os): EADDRINUSE if this id joined it already, by whatever port, or the
    /// errno of `rdma_join_multicast`.
    pub fn join_multicast(
        &mut self,
        address: SocketAddr,
        timeout: Duration,
    ) -> Result<Group, Error> {
        let deadline = Instant::now().checked_add(timeout);
        let mut joining = self.begin_join(address)?;
        let key = joining.key;
        let mut events = Events::until(self.core.id.channel(), deadline);
        let error = loop {
            match events.next() {
                Ok(Some(event)) => match joining.advance(&event) {
                    Step::Done(group) => return Ok(group),
                    Step::Waiting(waiting) => joining = waiting,
                    Step::Failed(refused) => break refused.error,
                },
                Ok(None) => break Error::new(VERB, ErrorKind::TimedOut { after: timeout }),
                Err(error) => break error,
            }
        };
        let _ = self.core.id.leave(key);
        Err(error)
    }
}

impl CmId<Udp, AddrResolved, OnChannel> {
    /// Starts to join the group of an IP address (`rdma_join_multicast`).
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os): EADDRINUSE if this id joined it already, by whatever port, or the
    /// errno of `rdma_join_multicast`.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # fn example(channel: EventChannel, mut id: CmId<Udp, AddrResolved, OnChannel>)
    /// #     -> Result<(), Box<dyn std::error::Error>> {
    /// let mut joining: Joining = id.join_multicast("239.77.0.1:7471".parse()?)?;
    /// let group = loop {
    ///     match joining.advance(&channel.wait()?) {
    ///         Step::Done(group) => break group,
    ///         Step::Waiting(waiting) => joining = waiting,
    ///         Step::Failed(refused) => return Err(refused.error.into()),
    ///     }
    /// };
    /// # drop(group);
    /// # Ok(())
    /// # }
    /// ```
    pub fn join_multicast(&mut self, address: SocketAddr) -> Result<Joining, Error> {
        self.begin_join(address)
    }
}

impl Joining {
    /// Processes an event of the id: MULTICAST_JOIN completes the join. An event of another id or
    /// group changes nothing.
    ///
    /// [`Step::Failed`] has [`Cm`](ErrorKind::Cm) with the event.
    pub fn advance(self, event: &Event) -> Step<Group, Self, ()> {
        if event.id() != self.id || event.group() != self.key {
            return Step::Waiting(self);
        }
        match (event.kind(), event.status(), event.ud_peer()) {
            (EventKind::MulticastJoin, 0, Some(peer)) => {
                Step::Done(Group { key: self.key, address: self.address, peer })
            }
            _ => {
                self.failed.set();
                Step::Failed(Refused::new((), failure(VERB, event)))
            }
        }
    }
}

impl Group {
    /// The group's GID.
    pub fn gid(&self) -> Gid {
        self.peer.vector.global.map_or(Gid::default(), |route| route.dgid)
    }

    /// Makes `qp` receive the messages to the group (`ibv_attach_mcast`).
    ///
    /// # Errors
    /// As for [`QueuePair::attach_mcast`].
    pub fn attach<S: State, P: Profile>(&self, qp: &mut QueuePair<Ud, S, P>) -> Result<(), Error> {
        qp.attach_mcast(self.gid(), self.peer.vector.dlid)
    }

    /// Ends what [`attach`](Self::attach) began (`ibv_detach_mcast`). Returns whether `qp` was
    /// attached.
    ///
    /// # Errors
    /// As for [`QueuePair::detach_mcast`].
    pub fn detach<S: State, P: Profile>(
        &self,
        qp: &mut QueuePair<Ud, S, P>,
    ) -> Result<bool, Error> {
        qp.detach_mcast(self.gid(), self.peer.vector.dlid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cm::stub;
    use crate::sys::types::raw::rdma_cm_event_type as Type;

    const JOIN: u32 = Type::RDMA_CM_EVENT_MULTICAST_JOIN;
    const ERROR: u32 = Type::RDMA_CM_EVENT_MULTICAST_ERROR;

    fn joining() -> Joining {
        let address = "239.77.0.1:7471".parse().unwrap();
        Joining { id: IdKey(7), key: 9, address, failed: Failed::default() }
    }

    fn event(id: u64, group: u64, kind: u32, status: i32) -> Event {
        Event { copied: stub::event(id, group, kind, status) }
    }

    #[test]
    fn an_event_of_another_id_or_group_changes_nothing() {
        let mut joining = joining();
        for (id, group) in [(8, 9), (7, 10), (8, 10)] {
            for (kind, status) in [(JOIN, 0), (ERROR, -22)] {
                let step = joining.advance(&event(id, group, kind, status));
                let Step::Waiting(waiting) = step else { panic!("not its event") };
                joining = waiting;
            }
        }
        let Step::Done(group) = joining.advance(&event(7, 9, JOIN, 0)) else { panic!("its event") };
        assert_eq!((group.key, group.address.port()), (9, 7471));
        assert_eq!((group.peer.qpn.get(), group.peer.qkey.get()), (0xff_ffff, 0x0123_4567));
    }

    /// So that its address can be joined again.
    #[test]
    fn a_group_that_was_not_joined_is_noted() {
        for (kind, status) in [(ERROR, -22), (JOIN, -110)] {
            let joining = joining();
            let failed = joining.failed.clone();
            assert!(!failed.is_set());
            let Step::Failed(refused) = joining.advance(&event(7, 9, kind, status)) else {
                panic!("it failed")
            };
            let ErrorKind::Cm { status: told, .. } = *refused.error.kind() else {
                panic!("{}", refused.error)
            };
            assert_eq!((told, failed.is_set()), (status, true));
        }
    }
}
