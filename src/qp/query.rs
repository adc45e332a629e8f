//! Asking the device for the attributes of a queue pair: `ibv_query_qp`.

#![allow(unsafe_code)] // one verb

use super::attr::QpAccess;
use super::{Core, QueuePair};
use crate::device::decoded::decoded;
use crate::profile::Profile;
use crate::sys::control::Control;
use crate::sys::types::{ibv_qp, ibv_qp_attr, ibv_qp_attr_mask as Mask, ibv_qp_init_attr};
use crate::terms::bounded::{MinRnrTimer, Mtu, RetryCount, RnrRetry, Timeout};
use crate::terms::error::Error;
use crate::terms::state::{QpState, State};
use crate::terms::transport::Transport;

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// The attributes that the device reports now (`ibv_query_qp`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias("ibv_query_qp", "qp_state", "dest_qp_num", "qp_access_flags", "port_num"))]
    pub fn query(&self) -> Result<QpAttr, Error> {
        Ok(QpAttr::from_c(&self.core.ask(everything())?))
    }
}

impl<P: Profile> Core<P> {
    /// What the device says of the attributes in `mask`; the others are zero, or anything.
    pub(super) fn ask(&self, mask: u32) -> Result<ibv_qp_attr, Error> {
        // SAFETY: its handle keeps the queue pair.
        unsafe { ask(self.handle.control(), self.qp(), mask) }.map(|(attr, _)| attr)
    }

    /// The attributes, if the device says that the queue pair is in this state.
    pub(super) fn is_in(&self, state: QpState) -> Result<QpAttr, Error> {
        let attr = QpAttr::from_c(&self.ask(everything())?);
        if attr.state == Some(state) {
            return Ok(attr);
        }
        let is = attr.state.map_or("an unknown state", QpState::name);
        Err(Error::os("ibv_query_qp", libc::EINVAL, format!("it is in {is}")))
    }
}

/// What the device says of the attributes in `mask`; the others are zero, or anything.
///
/// # Safety
/// The queue pair is live, and one of these verbs.
pub(super) unsafe fn ask(
    control: &Control,
    qp: *mut ibv_qp,
    mask: u32,
) -> Result<(ibv_qp_attr, ibv_qp_init_attr), Error> {
    // SAFETY: the queue pair is live (this function's contract).
    unsafe { (control.query_qp)(qp, mask as i32) }
        .map_err(|errno| Error::os("ibv_query_qp", errno, ""))
}

decoded! {
    /// The attributes of a queue pair, as the device reports them (`struct ibv_qp_attr`):
    /// [`QueuePair::query`]. Fields without a meaning for the transport or the state hold whatever
    /// the device wrote.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::bounded::{RetryCount, RnrRetry, Timeout};
    /// # let proverbs::loopback::Pair { a, .. } = proverbs::loopback::pair()?;
    /// let attr = a.query()?;
    /// assert_eq!((attr.timeout, attr.retry_cnt), (Some(Timeout::MS_67), Some(RetryCount::SIX)));
    /// assert_eq!(attr.rnr_retry, Some(RnrRetry::SIX));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ibv_qp_attr")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub struct QpAttr = from_c(c: &ibv_qp_attr) {
        /// The state that it is in, which may not be the one requested last; `None` if the device
        /// reports an unknown one.
        pub state: Option<QpState> = QpState::from_c(c.qp_state),
        /// The largest payload of a packet; `None` before RTR.
        pub path_mtu: Option<Mtu> = Mtu::from_c(c.path_mtu),
        /// The peer's queue pair number (RC and UC).
        pub dest_qpn: u32 = c.dest_qp_num,
        /// The next expected PSN.
        pub rq_psn: u32 = c.rq_psn,
        /// The next PSN to send.
        pub sq_psn: u32 = c.sq_psn,
        /// The Q_Key that messages must carry (UD; [R5.5](crate::guide::rules#r5-5)).
        pub qkey: u32 = c.qkey,
        /// The rights of peers.
        pub access: QpAccess = QpAccess::from_bits_truncate(c.qp_access_flags),
        /// The port, counted from 1.
        pub port: u8 = c.port_num,
        /// Reads and atomics that may be outstanding ([R4.6](crate::guide::rules#r4-6)).
        pub max_rd_atomic: u8 = c.max_rd_atomic,
        /// Reads and atomics that the peer may have outstanding here
        /// ([R4.7](crate::guide::rules#r4-7)).
        pub max_dest_rd_atomic: u8 = c.max_dest_rd_atomic,
        /// How long it waits for an acknowledgement (RC, from RTS on); `None` if the device reports
        /// no legal value.
        pub timeout: Option<Timeout> = Timeout::from_c(c.timeout),
        /// Transport retries before `RETRY_EXC_ERR` (RC, from RTS on); `None` as above.
        pub retry_cnt: Option<RetryCount> = RetryCount::new(c.retry_cnt),
        /// RNR retries (RC, from RTS on); `None` as above.
        pub rnr_retry: Option<RnrRetry> = RnrRetry::from_c(c.rnr_retry),
        /// How long the peer waits when there is no receive (RC, from RTR on); `None` as above.
        pub min_rnr_timer: Option<MinRnrTimer> = MinRnrTimer::new(c.min_rnr_timer),
        /// Index in the port's P_Key table.
        pub pkey_index: u16 = c.pkey_index,
        /// Whether it is in SQD with sends that have begun and are not done.
        pub sq_draining: bool = c.sq_draining != 0,
    }
}

/// The mask of all that [`QpAttr`] has.
pub(super) fn everything() -> u32 {
    Mask::IBV_QP_STATE.0
        | Mask::IBV_QP_PATH_MTU.0
        | Mask::IBV_QP_RQ_PSN.0
        | Mask::IBV_QP_SQ_PSN.0
        | Mask::IBV_QP_DEST_QPN.0
        | Mask::IBV_QP_ACCESS_FLAGS.0
        | Mask::IBV_QP_QKEY.0
        | Mask::IBV_QP_PORT.0
        | Mask::IBV_QP_MAX_QP_RD_ATOMIC.0
        | Mask::IBV_QP_MAX_DEST_RD_ATOMIC.0
        | Mask::IBV_QP_TIMEOUT.0
        | Mask::IBV_QP_RETRY_CNT.0
        | Mask::IBV_QP_RNR_RETRY.0
        | Mask::IBV_QP_MIN_RNR_TIMER.0
        | Mask::IBV_QP_PKEY_INDEX.0
}
