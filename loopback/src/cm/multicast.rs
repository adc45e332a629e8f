//! Multicast groups of ids.

use std::net::SocketAddr;

use super::Kind;
use crate::objects::cm::{Arm, Event, Phase};
use crate::state::State;
use crate::words::Verb;
use crate::words::world::Link;

impl State {
    /// Joins the group of an IP address. Its event has `context`.
    pub(super) fn join_group(&mut self, number: u32, group: SocketAddr, context: usize) -> Verb {
        let is_iwarp = self.world.link == Link::Iwarp;
        // (`cma.c`, `rdma_join_multicast`, for both conditions.)
        let id = self.id_in(number, &[Phase::Bound, Phase::AddrResolved])?;
        let device = id.device.ok_or(libc::EINVAL)?;
        if is_iwarp {
            return Err(libc::ENOSYS);
        }
        let ip = group.ip().to_canonical();
        if !ip.is_multicast() {
            return Err(libc::EINVAL);
        }
        id.groups.push((ip, context));
        let arm = Arm::Group { to: self.way_to(ip), context };
        self.tell(if self.hear_each_other(device, device) {
            Event::of(number, Kind::RDMA_CM_EVENT_MULTICAST_JOIN).arm(arm)
        } else {
            let event = Event::of(number, Kind::RDMA_CM_EVENT_MULTICAST_ERROR);
            event.arm(arm).status(-libc::ETIMEDOUT)
        });
        Ok(())
    }

    /// Fails with EADDRNOTAVAIL if the id did not join the group.
    pub(super) fn leave_group(&mut self, number: u32, group: SocketAddr) -> Verb {
        let id = self.id(number)?;
        let ip = group.ip().to_canonical();
        let at = id.groups.iter().position(|(joined, _)| *joined == ip);
        let (_, left) = id.groups.remove(at.ok_or(libc::EADDRNOTAVAIL)?);
        self.forget_events_of(
            number,
            |event| matches!(event.arm, Arm::Group { context, .. } if context == left),
        );
        self.mind_the_unheard();
        Ok(())
    }
}
