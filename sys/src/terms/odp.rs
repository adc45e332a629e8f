//! The operations that support on-demand paging.

use bitflags::bitflags;

use crate::persist::{ODP_ATOMIC_WRITE, ODP_FLUSH};

bitflags! {
    /// The operations whose memory may be on demand (`odp_caps` of ibv_query_device_ex(3)).
    ///
    /// [`DeviceAttrEx`] has an example.
    ///
    /// [`DeviceAttrEx`]: https://docs.rs/proverbs/latest/proverbs/device/struct.DeviceAttrEx.html
    #[doc(alias("IBV_ODP_SUPPORT", "ibv_odp_transport_cap_bits"))]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OdpOps: u32 {
        /// SEND.
        #[doc(alias = "IBV_ODP_SUPPORT_SEND")]
        const SEND = 1 << 0;
        /// Receives.
        #[doc(alias = "IBV_ODP_SUPPORT_RECV")]
        const RECV = 1 << 1;
        /// RDMA WRITE.
        #[doc(alias = "IBV_ODP_SUPPORT_WRITE")]
        const WRITE = 1 << 2;
        /// RDMA READ.
        #[doc(alias = "IBV_ODP_SUPPORT_READ")]
        const READ = 1 << 3;
        /// Atomics.
        #[doc(alias = "IBV_ODP_SUPPORT_ATOMIC")]
        const ATOMIC = 1 << 4;
        /// Receives of a shared receive queue.
        #[doc(alias = "IBV_ODP_SUPPORT_SRQ_RECV")]
        const SRQ_RECV = 1 << 5;
        /// FLUSH.
        #[doc(alias = "IBV_ODP_SUPPORT_FLUSH")]
        const FLUSH = ODP_FLUSH;
        /// ATOMIC WRITE.
        #[doc(alias = "IBV_ODP_SUPPORT_ATOMIC_WRITE")]
        const ATOMIC_WRITE = ODP_ATOMIC_WRITE;
    }
}
