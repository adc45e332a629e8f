//! Asking the device what a queue pair is: `ibv_query_qp`.

#![allow(unsafe_code)] // one verb

use std::mem::MaybeUninit;

use super::QueuePair;
use super::attr::QpAccess;
use crate::bounded::Mtu;
use crate::error::Error;
use crate::profile::Profile;
use crate::state::{QpState, State};
use crate::sys::types::{ibv_qp_attr, ibv_qp_attr_mask as Mask, ibv_qp_init_attr};
use crate::transport::Transport;

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// What the device says of it now (`ibv_query_qp`).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    pub fn query(&self) -> Result<QpAttr, Error> {
        let mut attr = MaybeUninit::<ibv_qp_attr>::zeroed();
        let mut init = MaybeUninit::<ibv_qp_init_attr>::zeroed();
        let mask = Mask::IBV_QP_STATE.0
            | Mask::IBV_QP_CUR_STATE.0
            | Mask::IBV_QP_PATH_MTU.0
            | Mask::IBV_QP_RQ_PSN.0
            | Mask::IBV_QP_SQ_PSN.0
            | Mask::IBV_QP_DEST_QPN.0
            | Mask::IBV_QP_ACCESS_FLAGS.0
            | Mask::IBV_QP_CAP.0
            | Mask::IBV_QP_QKEY.0
            | Mask::IBV_QP_PORT.0
            | Mask::IBV_QP_MAX_QP_RD_ATOMIC.0
            | Mask::IBV_QP_MAX_DEST_RD_ATOMIC.0;
        let query = self.core.handle.control().query_qp;
        // SAFETY: the queue pair is alive; both structs are locals.
        match unsafe { query(self.core.qp, attr.as_mut_ptr(), mask as i32, init.as_mut_ptr()) } {
            0 => {
                // SAFETY: all zeroes is a value, and the verb filled it.
                let c = unsafe { attr.assume_init() };
                Ok(QpAttr {
                    state: QpState::from_c(c.qp_state),
                    path_mtu: Mtu::from_c(c.path_mtu),
                    dest_qpn: c.dest_qp_num,
                    rq_psn: c.rq_psn,
                    sq_psn: c.sq_psn,
                    qkey: c.qkey,
                    access: QpAccess::from_bits_truncate(c.qp_access_flags),
                    port: c.port_num,
                    max_rd_atomic: c.max_rd_atomic,
                    max_dest_rd_atomic: c.max_dest_rd_atomic,
                    sq_draining: c.sq_draining != 0,
                })
            }
            errno => Err(Error::os("ibv_query_qp", errno, "")),
        }
    }
}

/// What the device says of a queue pair (`struct ibv_qp_attr`): [`QueuePair::query`]. Fields that mean nothing to the transport or in the state hold
/// whatever the device put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpAttr {
    /// The state that it is in, which may not be the one that it was moved to last; `None` if the
    /// device names one that does not exist.
    pub state: Option<QpState>,
    /// The largest payload of a packet; `None` before RTR.
    pub path_mtu: Option<Mtu>,
    /// The peer's queue pair number (RC and UC).
    pub dest_qpn: u32,
    /// The PSN that is expected next.
    pub rq_psn: u32,
    /// The PSN that is sent next.
    pub sq_psn: u32,
    /// The Q_Key that messages must carry (UD; R5.5).
    pub qkey: u32,
    /// What peers may do.
    pub access: QpAccess,
    /// The port, from 1.
    pub port: u8,
    /// Reads and atomics that may be outstanding (R4.6).
    pub max_rd_atomic: u8,
    /// Reads and atomics that the peer may have outstanding here (R4.7).
    pub max_dest_rd_atomic: u8,
    /// Whether SQD was asked for, and sends begun before are not done yet.
    pub sq_draining: bool,
}
