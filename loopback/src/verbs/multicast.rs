//! Multicast groups. A datagram to a group reaches every queue pair that is attached to it, on each
//! device of the fabric, including the sender's.

use crate::state::State;
use crate::words::address::{Address, FIRST_LID, Gid, is_group};
use crate::words::transport::Transport;
use crate::words::world::Link;
use crate::words::{Verb, limits};
use proverbs_sys::types::ibv_qp_type;

/// The queue pair number in datagrams to a group.
const EVERY_QP: u32 = limits::BITS_24;
impl State {
    pub(crate) fn attach(&mut self, qp: u32, group: Gid, lid: u16) -> Verb {
        let pair = self.qps.get(&qp).ok_or(libc::EINVAL)?;
        self.check_alive(pair.device)?;
        let has_lid = self.world.link != Link::InfiniBand || (FIRST_LID..u16::MAX).contains(&lid);
        if pair.shape.transport != Transport::Ud || !is_group(&group) || !has_lid {
            return Err(libc::EINVAL);
        }
        self.groups.insert((group, qp));
        Ok(())
    }

    /// Fails with EINVAL if it is not attached.
    pub(crate) fn detach(&mut self, qp: u32, group: Gid) -> Verb {
        if self.groups.remove(&(group, qp)) { Ok(()) } else { Err(libc::EINVAL) }
    }

    /// Whether queue pairs of this type can block multicast loopback.
    pub(crate) fn blocks_loopback(&self, qp_type: ibv_qp_type::Type) -> Verb {
        self.check_beyond_rxe()?;
        if Transport::from_c(qp_type)? == Transport::Ud { Ok(()) } else { Err(libc::EINVAL) }
    }

    pub(crate) fn block_loopback(&mut self, qp: u32) {
        if let Some(qp) = self.qps.get_mut(&qp) {
            qp.blocks_loopback = true;
        }
    }

    /// Whether the queue pair is attached to a group, so that it cannot be destroyed (R5.12).
    pub(crate) fn is_attached(&self, qp: u32) -> bool {
        self.groups.iter().any(|(_, member)| *member == qp)
    }

    /// The queue pairs that a datagram reaches if they can receive it: the members of the group, or
    /// the one that it names.
    pub(crate) fn receivers(&self, to: u32, address: &Address) -> Vec<u32> {
        if address.is_to_a_group() {
            let members = self.groups.range((address.dgid, 0)..=(address.dgid, u32::MAX));
            let alive = members.map(|&(_, qp)| qp).filter(|qp| {
                let device = self.qps.get(qp).map(|qp| qp.device);
                to == EVERY_QP && device.is_some_and(|device| self.check_alive(device).is_ok())
            });
            return alive.collect();
        }
        let device = self.device_at(address);
        let there = self.qps.get(&to).filter(|qp| Some(qp.device) == device);
        there.map(|_| to).into_iter().collect()
    }
}
