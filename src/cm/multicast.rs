//! Multicast groups: `rdma_join_multicast`, `rdma_join_multicast_ex`, `rdma_leave_multicast`.

#![allow(unsafe_code)] // one call that needs a device

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use super::channel::Events;
use super::datagram::UdPeer;
use super::event::{Event, EventKind, IdKey};
use super::id::CmId;
use super::space::Udp;
use super::state::{CmState, Mode, OnChannel};
use super::waits::{Progress, failure};
use crate::allows::{Allows, call};
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::sys::cm::{FULLMEMBER, Failed, SENDONLY_FULLMEMBER};
use crate::sys::wait::end_of;
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::gid::Gid;
use crate::terms::state::State;
use crate::terms::transport::Ud;

const VERB: &str = "rdma_join_multicast";
const VERB_EX: &str = "rdma_join_multicast_ex";

/// The kind of a group's member: [`FullMember`] or [`SendOnlyFullMember`].
///
/// ```
/// use proverbs::cm::*;
///
/// fn print<J: Membership>(group: &Group<J>) {
///     println!("{}: {:?}", group.address, group.peer);
/// }
/// ```
pub trait Membership: sealed::Sealed + 'static {
    #[doc(hidden)]
    const FLAGS: u32;
}

/// Sends to the group, and receives from it with attached queue pairs.
#[doc(alias("rdma_cm_mc_join_flags", "RDMA_MC_JOIN_FLAG_FULLMEMBER"))]
#[derive(Debug)]
pub enum FullMember {}
/// Only sends to the group. Switches do not forward the group's messages to this member, so no
/// queue pair can be attached ([R23.3](crate::guide::rules#r23-3)).
#[doc(alias = "RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER")]
#[derive(Debug)]
pub enum SendOnlyFullMember {}

impl Membership for FullMember {
    const FLAGS: u32 = FULLMEMBER;
}
impl Membership for SendOnlyFullMember {
    const FLAGS: u32 = SENDONLY_FULLMEMBER;
}

/// Members that receive messages: [`FullMember`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` of a multicast group does not receive its messages",
    label = "this group was joined as a `{Self}`",
    note = "switches do not forward messages to such a member; to receive, join with only the address, as a `FullMember` (R23.3)"
)]
pub trait ReceivesFromGroup: Membership {}
impl ReceivesFromGroup for FullMember {}

allows! { [J: ReceivesFromGroup] Group<J>: Attach; }

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::FullMember {}
    impl Sealed for super::SendOnlyFullMember {}
}

/// The address of a group to join, and the kind of member to join as (`rdma_join_multicast_ex`).
/// Pass a plain [`SocketAddr`] to join as a [`FullMember`] (`rdma_join_multicast`).
///
/// A member that only sends does not receive the group's traffic:
///
/// ```
/// # use proverbs::{cm::*, loopback::Fabric, prelude::*};
/// # use std::{net::SocketAddr, time::Duration};
/// # let fabric = Fabric::new();
/// # let _device = fabric.open_device();
/// # let second = Duration::from_secs(1);
/// let at: SocketAddr = "239.77.0.1:7471".parse()?;
/// let mut id = CmId::<Udp, _>::on(&fabric)?.bind_addr("10.0.0.1:0".parse()?)?.on_device()?;
/// let group = id.join_multicast(Join::<SendOnlyFullMember>::new(at), second)?;
/// let address_handle = id.pd()?.create_ah(group.peer.vector)?;
/// // ... send to `group.peer.destination(..)` ...
/// id.leave_multicast(group)?;
/// # drop(address_handle);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("rdma_cm_join_mc_attr_mask", "rdma_join_multicast_ex"))]
#[doc(alias("RDMA_CM_JOIN_MC_ATTR_ADDRESS", "RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS"))]
#[doc(alias("rdma_cm_join_mc_attr_ex", "join_flags"))]
#[derive(Debug)]
pub struct Join<J: Membership = FullMember> {
    address: SocketAddr,
    flags: Option<u32>,
    member: PhantomData<J>,
}

impl<J: Membership> Join<J> {
    /// Joins the group of `address` as a `J`.
    pub fn new(address: SocketAddr) -> Self {
        Join { address, flags: Some(J::FLAGS), member: PhantomData }
    }
}

impl From<SocketAddr> for Join {
    fn from(address: SocketAddr) -> Self {
        Join { address, flags: None, member: PhantomData }
    }
}

/// A group that an id joined. [`leave_multicast`](CmId::leave_multicast) or destroying the id
/// leaves it.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::{net::SocketAddr, time::Duration};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (second, at) = (Duration::from_secs(1), "239.77.0.1:7471".parse::<SocketAddr>()?);
/// let mut id = CmId::<Udp, _>::new()?.bind_addr("10.77.0.1:0".parse()?)?.on_device()?;
/// let (context, pd) = (id.context()?, id.pd()?);
/// let cq = context.create_cq(32)?;
/// let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 8, recv: 8 })?;
///
/// let group = id.join_multicast(at, second)?;
/// println!("{} is {:?}", group.address, group.gid());
/// group.attach(&mut qp)?; // to receive messages
/// let address_handle = qp.add_address_handle(pd.create_ah(group.peer.vector)?)?;
/// qp.post_send(wr::Send::inline(b"to all").to(group.peer.destination(address_handle)))?;
/// // ... poll `cq` ...
/// assert!(group.detach(&mut qp)?);
/// id.leave_multicast(group)?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("rdma_ib_addr", "rdma_addr"))]
#[derive(Debug)]
pub struct Group<J: Membership = FullMember> {
    key: u64,
    /// The group's IP address.
    pub address: SocketAddr,
    /// The destination for messages to the group.
    pub peer: UdPeer,
    member: PhantomData<J>,
}

/// A group that is being joined. Dropping it gives up the attempt. The id then leaves the group
/// when the id joins the same group again or is destroyed.
#[derive(Debug)]
pub struct Joining<J: Membership = FullMember> {
    id: IdKey,
    key: u64,
    address: SocketAddr,
    /// Set when this is dropped, unless it is `joined`.
    failed: Failed,
    joined: bool,
    verb: &'static str,
    member: PhantomData<J>,
}

impl<S: CmState, M: Mode> CmId<Udp, S, M>
where
    Self: Allows<call::JoinMulticast>,
{
    fn begin_join<J: Membership>(
        &mut self,
        Join { address, flags, member }: Join<J>,
    ) -> Result<Joining<J>, Error> {
        let verb = if flags.is_some() { VERB_EX } else { VERB };
        // SAFETY: in these states the id has a device.
        match unsafe { self.core.id.join(address, flags) } {
            Ok((key, failed)) => {
                let (id, joined) = (self.key(), false);
                Ok(Joining { id, key, address, failed, joined, verb, member })
            }
            Err(libc::EADDRINUSE) => {
                let asked = format!("this id joined {} already: leave it first", address.ip());
                Err(Error::os(verb, libc::EADDRINUSE, asked))
            }
            Err(libc::ENOSYS) if self.core.id.is_iwarp() => {
                Err(Error::os(verb, libc::ENOSYS, "iWARP has no multicast groups"))
            }
            Err(errno) => Err(Error::os(verb, errno, address.to_string())),
        }
    }
}

impl<S: CmState> CmId<Udp, S> {
    fn finish_join<J: Membership>(
        &mut self,
        mut joining: Joining<J>,
        timeout: Duration,
    ) -> Result<Group<J>, Error> {
        let Joining { key, verb, .. } = joining;
        let mut events = Events::until(self.core.id.channel(), end_of(Some(timeout)));
        let error = loop {
            if let Err(error) = self.core.removal(verb) {
                break error;
            }
            match events.next() {
                Ok(Some(event)) => match joining.advance(&event) {
                    Progress::Done(group) => return Ok(group),
                    Progress::Waiting(waiting) => joining = waiting,
                    Progress::Failed(refused) => break refused.error,
                },
                Ok(None) => break Error::new(verb, ErrorKind::TimedOut { after: timeout }),
                Err(error) => break error,
            }
        };
        let _ = self.core.id.leave(key);
        Err(error)
    }
}

impl<S: CmState, M: Mode> CmId<Udp, S, M> {
    /// Leaves a group (`rdma_leave_multicast`). This does not detach queue pairs: detach those that
    /// you attached.
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with EADDRNOTAVAIL if another id joined the group, or the errno of
    /// `rdma_leave_multicast`, such as ENXIO after the device was removed. If leaving fails, the id
    /// is unusable: its pending events are lost, and its other calls fail with ENXIO.
    #[doc(alias = "rdma_leave_multicast")]
    pub fn leave_multicast<J: Membership>(&mut self, group: Group<J>) -> Result<(), Error>
    where
        Self: Allows<call::LeaveMulticast>,
    {
        const VERB: &str = "rdma_leave_multicast";
        match self.core.id.leave(group.key) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::os(VERB, libc::EADDRNOTAVAIL, "another id joined it")),
            Err(errno) => Err(Error::os(VERB, errno, group.address.to_string())),
        }
    }
}

impl<S: CmState> CmId<Udp, S> {
    /// Joins the group of an IP address, within `timeout` (`rdma_join_multicast`). With a [`Join`],
    /// joins as the kind of member that it names (`rdma_join_multicast_ex`). To receive, attach
    /// queue pairs with [`Group::attach`]. The group is joined on the id's device: the device of
    /// its bound address ([`on_device`](Self::on_device)), or of the resolved address of the group.
    ///
    /// # Errors
    /// - [`Cm`](ErrorKind::Cm): the group cannot be joined.
    /// - [`TimedOut`](ErrorKind::TimedOut).
    /// - [`Os`](ErrorKind::Os): EADDRINUSE if this id joined the group already, on any port, ENOSYS
    ///   on iWARP, or the errno of the verb.
    ///
    /// EOPNOTSUPP, as errno or as status, means that the subnet manager of an InfiniBand fabric
    /// does not support send-only members.
    #[doc(alias("rdma_join_multicast", "rdma_join_multicast_ex"))]
    pub fn join_multicast<J: Membership>(
        &mut self,
        group: impl Into<Join<J>>,
        timeout: Duration,
    ) -> Result<Group<J>, Error>
    where
        Self: Allows<call::JoinMulticast>,
    {
        let joining = self.begin_join(group.into())?;
        self.finish_join(joining, timeout)
    }
}

impl<S: CmState> CmId<Udp, S, OnChannel> {
    /// Starts to join the group of an IP address (`rdma_join_multicast`). With a [`Join`], joins as
    /// the kind of member that it names (`rdma_join_multicast_ex`).
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with EADDRINUSE if this id joined the group already, on any port, or
    /// the errno of the verb.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # use std::net::SocketAddr;
    /// # fn example(channel: EventChannel, mut id: CmId<Udp, AddrResolved, OnChannel>)
    /// #     -> Result<(), Box<dyn std::error::Error>> {
    /// let at: SocketAddr = "239.77.0.1:7471".parse()?;
    /// let mut joining = id.join_multicast(at)?;
    /// let group = loop {
    ///     match joining.advance(&channel.wait()?) {
    ///         Progress::Done(group) => break group,
    ///         Progress::Waiting(waiting) => joining = waiting,
    ///         Progress::Failed(refused) => return Err(refused.error.into()),
    ///     }
    /// };
    /// # drop(group);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("rdma_join_multicast", "rdma_join_multicast_ex"))]
    pub fn join_multicast<J: Membership>(
        &mut self,
        group: impl Into<Join<J>>,
    ) -> Result<Joining<J>, Error>
    where
        Self: Allows<call::JoinMulticast>,
    {
        self.begin_join(group.into())
    }
}

impl<J: Membership> Joining<J> {
    /// Processes an event of the id. MULTICAST_JOIN completes the join. An event of another id or
    /// group changes nothing.
    ///
    /// [`Progress::Failed`] contains [`Cm`](ErrorKind::Cm) with the event, which may be the removal
    /// of the device.
    pub fn advance(mut self, event: &Event) -> Progress<Group<J>, Self, ()> {
        // DEVICE_REMOVAL does not name a group, and no event follows it.
        let is_removal = event.kind() == EventKind::DeviceRemoval;
        if event.id() != self.id || !(is_removal || event.group() == self.key) {
            return Progress::Waiting(self);
        }
        match (event.kind(), event.status(), event.ud_peer()) {
            (EventKind::MulticastJoin, 0, Some(peer)) => {
                self.joined = true;
                let Joining { key, address, member, .. } = self;
                Progress::Done(Group { key, address, peer, member })
            }
            _ => Progress::Failed(Refused::new((), failure(self.verb, event))),
        }
    }
}

impl<J: Membership> Drop for Joining<J> {
    /// No caller is left to leave the group.
    fn drop(&mut self) {
        if !self.joined {
            self.failed.set();
        }
    }
}

impl<J: Membership> Group<J> {
    /// The group's GID.
    #[doc(alias("sgid", "dgid", "ibaddr"))]
    pub fn gid(&self) -> Gid {
        self.peer.vector.global.map_or(Gid::default(), |route| route.dgid)
    }

    /// Attaches `qp` to the group, so that it receives the group's messages (`ibv_attach_mcast`).
    ///
    /// # Errors
    /// As for [`QueuePair::attach_mcast`].
    pub fn attach<S: State, P: Profile>(&self, qp: &mut QueuePair<Ud, S, P>) -> Result<(), Error>
    where
        Self: Allows<call::Attach>,
    {
        qp.attach_mcast(self.gid(), self.peer.vector.dlid)
    }

    /// Detaches `qp` from the group (`ibv_detach_mcast`). Returns whether it was attached.
    ///
    /// # Errors
    /// As for [`QueuePair::detach_mcast`].
    pub fn detach<S: State, P: Profile>(&self, qp: &mut QueuePair<Ud, S, P>) -> Result<bool, Error>
    where
        Self: Allows<call::Attach>,
    {
        qp.detach_mcast(self.gid(), self.peer.vector.dlid)
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
