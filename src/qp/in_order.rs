//! Whether data arrives in order: `ibv_query_qp_data_in_order`.

#![allow(unsafe_code)] // one verb

use super::QueuePair;
use crate::allows::{Allows, call};
use crate::profile::Profile;
use crate::terms::state::State;
use crate::terms::transport::Transport;
use crate::work::opcode::Opcode;

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Whether the bytes of a message become visible in their order
    /// (`ibv_query_qp_data_in_order`): what a peer's SEND or RDMA WRITE brings here, or this queue
    /// pair's RDMA READ.
    ///
    /// Only then does the last byte of a message say that those before it are there, so that a
    /// program may look at it in place of a completion ([R21.1](crate::guide::rules#r21-1)); and in
    /// [`Relaxed`] memory never. A library that cannot be asked (before rdma-core 40) and a device
    /// that does not say promise nothing.
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
