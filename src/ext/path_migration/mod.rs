//! Alternate paths to a peer, and the migration to them (`alt_ah_attr` and `path_mig_state` of
//! ibv_modify_qp(3)). They are set with the attributes of transitions, such as
//! [`RtrOptional`](crate::qp::RtrOptional). [`AlternatePath`] has an example.
//!
//! The design is in
//! [docs/path-migration.md](https://docs.rs/crate/proverbs/latest/source/docs/path-migration.md).

pub use crate::sys::attr::qp::{AlternatePath, Migration, MigrationState, QpPaths};

use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::sys::types::ibv_qp_attr_mask as Mask;
use crate::terms::error::Error;
use crate::terms::state::State;
use crate::terms::transport::Transport;

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// The paths to the peer of an RC or UC queue pair, from RTR on (`ibv_query_qp`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    pub fn query_paths(&self) -> Result<QpPaths, Error> {
        let mask = Mask::IBV_QP_AV.0 | Mask::IBV_QP_ALT_PATH.0 | Mask::IBV_QP_PATH_MIG_STATE.0;
        self.core.ask(mask).map(|c| QpPaths::from_c(&c))
    }
}

#[cfg(test)]
mod tests;
