//! The attributes used to move the queue pair of an id, and the options of ids.

use std::ffi::c_int;

use crate::objects::cm::{Phase, Space};
use crate::objects::memory::{REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE};
use crate::state::State;
use crate::words::Verb;
use crate::words::attributes::Attributes;
use crate::words::attributes::*;
use crate::words::limits::BITS_24;
use crate::words::world::Link;
use proverbs_sys::types::ibv_qp_state;

/// `RDMA_UDP_QKEY`.
pub(super) const QKEY_OF_DATAGRAMS: u32 = 0x0123_4567;

/// 67 ms, unless an option changes it.
const ACK_TIMEOUT: u8 = 14;

impl State {
    /// The attributes and their mask for the transition to a state. EINVAL if the id has no device,
    /// or for RTR and RTS no peer.
    pub(super) fn attributes_of(
        &mut self,
        number: u32,
        to: ibv_qp_state::Type,
    ) -> Verb<(Attributes, u32)> {
        let is_iwarp = self.world.link == Link::Iwarp;
        let id = self.id(number)?;
        let (phase, space, agreed, options) = (id.phase, id.space, id.agreed, id.options);
        let (local, remote, peer) = (id.device, id.remote, id.peer);
        // Fields outside the mask stay at their defaults.
        let mut now = Attributes::default();
        let has_peer = match phase {
            Phase::Asked | Phase::Answered | Phase::Accepted | Phase::Connected => true,
            Phase::Bound | Phase::AddrResolved | Phase::RouteResolved | Phase::Asking => false,
            // iWARP queue pairs need no peer (`iwcm.c`, `iw_cm_init_qp_attr`).
            Phase::Ended if is_iwarp && to == ibv_qp_state::IBV_QPS_INIT => true,
            _ => return Err(libc::EINVAL),
        };
        local.ok_or(libc::EINVAL)?;
        match (to, space) {
            (ibv_qp_state::IBV_QPS_INIT, Space::Udp) => {
                (now.port, now.qkey) = (1, QKEY_OF_DATAGRAMS);
                Ok((now, STATE | PKEY | PORT | QKEY))
            }
            // The peer's rights depend on the agreed parameters.
            (ibv_qp_state::IBV_QPS_INIT, Space::Tcp) => {
                now.port = 1;
                if has_peer {
                    now.access = match agreed.responder_resources {
                        0 => REMOTE_WRITE,
                        _ => REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC,
                    };
                }
                Ok((now, STATE | PKEY | PORT | ACCESS))
            }
            (ibv_qp_state::IBV_QPS_RTR, Space::Tcp) if has_peer => {
                now.path = Some(self.way_to(remote.ok_or(libc::EINVAL)?.ip()));
                now.mtu = self.world.mtu.to_c();
                now.dest_qpn = self.id(number)?.peer_qp_num;
                // Each side numbers its packets from its own number.
                now.rq_psn = peer.unwrap_or(number) & BITS_24;
                now.max_dest_rd_atomic = agreed.responder_resources;
                Ok((now, STATE | AV | MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD | MIN_RNR))
            }
            (ibv_qp_state::IBV_QPS_RTS, Space::Tcp) if has_peer => {
                now.sq_psn = number & BITS_24;
                now.timeout = options.ack_timeout.unwrap_or(ACK_TIMEOUT);
                now.retry_cnt = agreed.retry_count;
                now.rnr_retry = agreed.rnr_retry_count;
                now.max_rd_atomic = agreed.initiator_depth;
                Ok((now, STATE | TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | MAX_RD))
            }
            _ => Err(libc::EINVAL),
        }
    }

    pub(super) fn set_option(&mut self, number: u32, option: c_int, value: &[u8]) -> Verb {
        let id = self.id(number)?;
        let on = || <[u8; 4]>::try_from(value).map(|on| i32::from_ne_bytes(on) != 0);
        match (option, value) {
            // The type of service, which the fabric ignores.
            (0, [_]) => {}
            // After binding, sharing can be permitted but no longer forbidden.
            (1, _) => {
                let on = on().map_err(|_| libc::EINVAL)?;
                if !(on && id.phase != Phase::Listening || id.phase == Phase::Idle) {
                    return Err(libc::EINVAL);
                }
                id.options.reuse_addr = on;
            }
            (2, _) if matches!(id.phase, Phase::Idle | Phase::Bound) => {
                id.options.af_only = on().map_err(|_| libc::EINVAL)?;
            }
            (3, [exponent]) if id.space == Space::Tcp => id.options.ack_timeout = Some(*exponent),
            (0..=3, _) => return Err(libc::EINVAL),
            _ => return Err(libc::ENOSYS),
        }
        Ok(())
    }
}
