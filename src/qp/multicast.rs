//! Multicast groups of UD queue pairs: `ibv_attach_mcast`, `ibv_detach_mcast`.

#![allow(unsafe_code)] // two verbs

use super::{Core, QueuePair};
use crate::profile::Profile;
use crate::sys::types::ibv_gid;
use crate::terms::error::Error;
use crate::terms::gid::Gid;
use crate::terms::state::State;
use crate::terms::transport::Ud;

/// A group that a queue pair receives from.
pub(super) type Attachment = (Gid, u16);

impl<P: Profile> Core<P> {
    fn detach(&self, (gid, lid): Attachment) -> Result<(), i32> {
        let gid = ibv_gid { raw: gid.0 };
        let detach = self.handle.control().detach_mcast;
        // SAFETY: the queue pair is live, and `gid` is a local.
        unsafe { detach(self.qp(), &gid, lid) }
    }

    /// Leaves every group: a queue pair that is attached to one cannot be destroyed (R5.12).
    pub(super) fn detach_all(&mut self) {
        let mut groups = std::mem::take(&mut self.groups);
        // If this fails, destroying the queue pair reports it, and can be tried again.
        groups.retain(|&group| self.detach(group).is_err());
        self.groups = groups;
    }
}

impl<S: State, P: Profile> QueuePair<Ud, S, P> {
    /// Attaches the queue pair to the multicast group `gid`, so that it receives the group's
    /// messages (`ibv_attach_mcast`). `lid` is 0 on RoCE. There the network must also know the
    /// membership: join the group with rdma_cm
    /// ([`join_multicast`](crate::cm::CmId::join_multicast), [R5.12](crate::guide::rules#r5-12)).
    /// Destroying the queue pair leaves the group.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::Gid;
    /// # let proverbs::loopback::DatagramPair { mut b, .. } = proverbs::loopback::datagram_pair()?;
    /// let mut group = [0; 16];
    /// group[..2].copy_from_slice(&[0xff, 0x0e]); // a multicast GID begins with ff
    /// let group = Gid(group);
    /// b.attach_mcast(group, 0)?;
    /// assert!(b.detach_mcast(group, 0)?);
    /// assert!(!b.detach_mcast(group, 0)?); // it was not attached
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if `gid` is not a multicast
    /// GID, ENOMEM if the device has no room, EOPNOTSUPP or ENOSYS if it does not support
    /// multicast.
    #[doc(alias = "ibv_attach_mcast")]
    pub fn attach_mcast(&mut self, gid: Gid, lid: u16) -> Result<(), Error> {
        let c = ibv_gid { raw: gid.0 };
        let attach = self.core.handle.control().attach_mcast;
        // SAFETY: the queue pair is live, and `c` is a local.
        unsafe { attach(self.core.qp(), &c, lid) }
            .map_err(|errno| Error::os("ibv_attach_mcast", errno, format!("group {gid}")))?;
        self.core.groups.push((gid, lid));
        Ok(())
    }

    /// Detaches the queue pair from the group (`ibv_detach_mcast`). Returns whether it was
    /// attached.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias = "ibv_detach_mcast")]
    pub fn detach_mcast(&mut self, gid: Gid, lid: u16) -> Result<bool, Error> {
        let Some(at) = self.core.groups.iter().position(|group| *group == (gid, lid)) else {
            return Ok(false);
        };
        let refused = |errno| Error::os("ibv_detach_mcast", errno, format!("group {gid}"));
        self.core.detach((gid, lid)).map_err(refused)?;
        self.core.groups.remove(at);
        Ok(true)
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
