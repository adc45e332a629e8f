//! Alternate paths to a peer, and the migration to them (`alt_ah_attr` and `path_mig_state` of
//! ibv_modify_qp(3)).

use super::{AlternatePath, Core, QpPaths, QueuePair};
use crate::device::{DeviceCap, Protocol};
use crate::profile::Profile;
use crate::sys::refusal::refusal;
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

const VERB: &str = "ibv_modify_qp";

impl<P: Profile> Core<P> {
    /// Rejects an alternate path that the port's protocol or the device does not support. `port` is
    /// the port of the primary path.
    pub(super) fn check_migrates<T: Transport>(
        &self,
        alternate: Option<&AlternatePath>,
        port: u8,
    ) -> Result<(), Error> {
        let context = self.context();
        let refused = |lacks: &str| {
            let asked = match alternate {
                Some(alternate) => format!("an alternate path via {}", alternate.address),
                None => "a migration of the path".to_owned(),
            };
            let instead = "connect a second queue pair over the other path";
            refusal(&context.handle, VERB, asked, lacks, instead)
        };
        for port in [Some(port), alternate.map(|it| it.address.port)].into_iter().flatten() {
            let protocol = context.protocol(port)?;
            if protocol != Protocol::InfiniBand {
                return Err(refused(&format!("speaks {protocol}, which has no alternate paths")));
            }
        }
        let can = DeviceCap::from_bits_retain(context.limits()?.device_cap_flags);
        if !can.contains(DeviceCap::AUTO_PATH_MIG) {
            return Err(refused("has no AUTO_PATH_MIG"));
        }
        let Some(AlternatePath { address, .. }) = alternate else { return Ok(()) };
        context.check_path_bits(address, VERB, address.port)?;
        self.fits_alternate::<T>(port, address.port)
    }

    /// The port, which a migration may have changed.
    pub(super) fn find_port(&self) -> Result<u8, Error> {
        if !self.may_migrate {
            return Ok(self.port);
        }
        self.ask(Mask::IBV_QP_PORT.0).map(|c| c.port_num)
    }
}

#[cfg(test)]
mod tests;
