//! The checks of an alternate path that a transition sets, and the port after a migration.

use super::Core;
use crate::device::{DeviceCap, Protocol};
use crate::profile::Profile;
use crate::sys::attr::qp::AlternatePath;
use crate::sys::refusal::refusal;
use crate::sys::types::ibv_qp_attr_mask as Mask;
use crate::terms::error::Error;
use crate::terms::transport::Transport;

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
