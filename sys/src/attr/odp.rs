//! The on-demand paging abilities of a device.

use crate::extended::ibv_device_attr_ex;
pub use crate::terms::odp::OdpOps;
use crate::types::ibv_qp_type;

decoded! {
    /// On-demand paging (`odp_caps`, `xrc_odp_caps` of ibv_query_device_ex(3)).
    /// [`DeviceAttrEx`](crate::attr::device_ex::DeviceAttrEx) has an example.
    #[doc(alias(
        "IBV_ODP_SUPPORT",
        "IBV_ODP_SUPPORT_IMPLICIT",
        "ibv_odp_general_caps",
        "ibv_odp_caps"
    ))]
    #[doc(alias("general_caps", "rc_odp_caps", "uc_odp_caps", "ud_odp_caps"))]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub struct OdpCaps = from_c(c: &ibv_device_attr_ex) {
        /// Whether the device supports on-demand paging.
        pub is_supported: bool = c.odp_caps.general_caps & 1 != 0,
        /// Whether a region may be the whole address space.
        pub is_implicit: bool = c.odp_caps.general_caps & 2 != 0,
        /// The operations that it supports on RC.
        pub rc: OdpOps = ops(c.odp_caps.per_transport_caps[0]),
        /// The operations that it supports on UC.
        pub uc: OdpOps = ops(c.odp_caps.per_transport_caps[1]),
        /// The operations that it supports on UD.
        pub ud: OdpOps = ops(c.odp_caps.per_transport_caps[2]),
        /// The operations that it supports on XRC.
        pub xrc: OdpOps = ops(c.xrc_odp_caps),
    }
}

fn ops(bits: u32) -> OdpOps {
    OdpOps::from_bits_retain(bits)
}

impl OdpCaps {
    /// Removes the operations that copy. Soft-RoCE (as of Linux 7.3) copies to and from the
    /// beginning of the page, wherever the bytes are in the page, so a peer's WRITE changes the
    /// memory before the region (R20.5). Atomics and ATOMIC_WRITE access the right bytes.
    #[doc(hidden)]
    pub fn without_copies(&mut self) {
        use OdpOps as op;
        let copies = op::SEND | op::RECV | op::WRITE | op::READ | op::SRQ_RECV;
        for ops in [&mut self.rc, &mut self.uc, &mut self.ud, &mut self.xrc] {
            ops.remove(copies);
        }
    }

    /// Whether queue pairs of this type support all of these operations.
    #[doc(hidden)]
    pub fn has(&self, qp_type: u32, ops: OdpOps) -> bool {
        let of = match qp_type {
            ibv_qp_type::IBV_QPT_RC => self.rc,
            ibv_qp_type::IBV_QPT_UC => self.uc,
            ibv_qp_type::IBV_QPT_UD => self.ud,
            _ => OdpOps::empty(),
        };
        self.is_supported && of.contains(ops)
    }
}
