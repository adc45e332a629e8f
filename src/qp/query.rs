//! Queries of a queue pair: `ibv_query_qp`, `ibv_query_qp_data_in_order`.

#![allow(unsafe_code)] // two verbs

use super::{Core, QpAttr, QueuePair};
use crate::allows::{Allows, call};
use crate::profile::Profile;
use crate::sys::control::Control;
use crate::sys::types::{ibv_qp, ibv_qp_attr, ibv_qp_attr_mask as Mask, ibv_qp_init_attr};
use crate::terms::error::Error;
use crate::terms::state::{QpState, State};
use crate::terms::transport::Transport;
use crate::work::opcode::Opcode;

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Returns the current attributes from the device (`ibv_query_qp`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias = "ibv_query_qp")]
    pub fn query(&self) -> Result<QpAttr, Error> {
        Ok(QpAttr::from_c(&self.core.ask(everything())?))
    }

    /// Whether the bytes of a message become visible in order (`ibv_query_qp_data_in_order`). `O`
    /// is an operation: the peer's SEND or RDMA WRITE to this queue pair, or this queue pair's RDMA
    /// READ.
    ///
    /// Only if this returns true can a program read the last byte of a message to detect that the
    /// earlier bytes have arrived, instead of waiting for a completion
    /// ([R21.1](crate::guide::rules#r21-1)). In [`Relaxed`] memory, a program can never rely on
    /// this. Returns false if the library does not have the function (before rdma-core 40) or the
    /// device does not report the order.
    ///
    /// [`Relaxed`]: crate::memory::Relaxed
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { b, .. } = proverbs::loopback::pair()?;
    /// assert!(b.data_in_order::<wr::RdmaWrite>()); // the loopback device writes a message at once
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ibv_query_qp_data_in_order")]
    pub fn data_in_order<O: Opcode>(&self) -> bool
    where
        Self: Allows<call::DataInOrder<O>>,
    {
        // SAFETY: its handle keeps the queue pair.
        unsafe { (self.core.handle.control().data_in_order)(self.core.qp(), O::CODE) }
    }
}

impl<P: Profile> Core<P> {
    /// The device's values of the attributes in `mask`. Other attributes are zero or unspecified.
    pub(crate) fn ask(&self, mask: u32) -> Result<ibv_qp_attr, Error> {
        // SAFETY: its handle keeps the queue pair.
        unsafe { ask(self.handle.control(), self.qp(), mask) }.map(|(attr, _)| attr)
    }

    /// The attributes, if the device reports that the queue pair is in this state.
    pub(super) fn is_in(&self, state: QpState) -> Result<QpAttr, Error> {
        let attr = QpAttr::from_c(&self.ask(everything())?);
        if attr.state == Some(state) {
            return Ok(attr);
        }
        let is = attr.state.map_or("an unknown state", QpState::name);
        Err(Error::os("ibv_query_qp", libc::EINVAL, format!("the queue pair is in {is}")))
    }
}

/// The device's values of the attributes in `mask`. Other attributes are zero or unspecified.
///
/// # Safety
/// The queue pair is live, and `control` has its verbs.
pub(crate) unsafe fn ask(
    control: &Control,
    qp: *mut ibv_qp,
    mask: u32,
) -> Result<(ibv_qp_attr, ibv_qp_init_attr), Error> {
    // SAFETY: the queue pair is live (this function's contract).
    unsafe { (control.query_qp)(qp, mask as i32) }
        .map_err(|errno| Error::os("ibv_query_qp", errno, ""))
}

/// The mask of all attributes in [`QpAttr`].
pub(crate) fn everything() -> u32 {
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
