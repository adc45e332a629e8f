//! The source of ids: the system's librdmacm, or a fabric.

use super::id::CmId;
use super::space::PortSpace;
use super::state::Created;
#[cfg(feature = "loopback")]
use crate::loopback::Fabric;
use crate::terms::error::Error;

#[derive(Clone, Debug)]
pub(super) enum Provider {
    System,
    #[cfg(feature = "loopback")]
    Fabric(Fabric),
}

impl Provider {
    pub fn create_id<PS: PortSpace>(&self) -> Result<CmId<PS, Created>, Error> {
        match self {
            Provider::System => CmId::new(),
            #[cfg(feature = "loopback")]
            Provider::Fabric(fabric) => CmId::on(fabric),
        }
    }
}
