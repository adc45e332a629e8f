//! The extended attributes of devices.

use crate::attr::clock::Clock;
use crate::attr::device::DeviceAttr;
use crate::attr::odp::OdpCaps;
use crate::extended::ibv_device_attr_ex;
use crate::terms::transport::Transport;

decoded! {
    /// The extended attributes of a device, in addition to [`DeviceAttr`] (ibv_query_device_ex(3)).
    /// Attributes that a device or its library does not report are 0.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::{DeviceAttrEx, OdpCaps, OdpOps};
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let attr: DeviceAttrEx = context.query_device_ex()?;
    /// let odp: OdpCaps = attr.odp;
    /// assert!(odp.is_supported && odp.rc.contains(OdpOps::READ)); // regions on demand
    /// assert_eq!(attr.device.max_qp, context.query_device()?.max_qp);
    /// assert_eq!(attr.max_dm_size, 128 << 10); // but memory of its own
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("ibv_device_attr_ex", "ibv_tso_caps", "ibv_rss_caps", "ibv_packet_pacing_caps"))]
    #[doc(alias("ibv_tm_caps", "ibv_cq_moderation_caps", "ibv_pci_atomic_caps"))]
    #[doc(alias("orig_attr", "odp_caps", "tso_caps", "rss_caps", "packet_pacing_caps", "tm_caps"))]
    #[doc(alias("cq_mod_caps", "pci_atomic_caps", "xrc_odp_caps", "supported_qpts", "fetch_add"))]
    #[doc(alias("max_rndv_hdr_size", "max_num_tags", "max_ops", "max_sge", "compare_swap"))]
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub struct DeviceAttrEx = from_c(c: &ibv_device_attr_ex) {
        /// The attributes of `ibv_query_device`.
        pub device: DeviceAttr = DeviceAttr::from_c(&c.orig_attr),
        /// On-demand paging.
        pub odp: OdpCaps = OdpCaps::from_c(c),
        /// The valid bits of completion timestamps; 0 if timestamps are not supported.
        pub completion_timestamp_mask: u64 = c.completion_timestamp_mask,
        /// Frequency of the device's clock, kHz; 0 if it has none.
        pub hca_core_clock: u64 = c.hca_core_clock,
        /// Optional abilities; the lower 32 bits are `device.device_cap_flags`.
        pub device_cap_flags_ex: u64 = c.device_cap_flags_ex,
        /// The longest message that the device can segment, bytes; 0 if it cannot.
        pub max_tso: u32 = c.tso_caps.max_tso,
        /// The queue pair types that support segmentation.
        pub tso_qpts: QpTypes = QpTypes(c.tso_caps.supported_qpts),
        /// The queue pair types that can distribute receives by a hash (RSS).
        pub rss_qpts: QpTypes = QpTypes(c.rss_caps.supported_qpts),
        /// The maximum number of receive work queue indirection tables.
        pub max_rwq_indirection_tables: u32 = c.rss_caps.max_rwq_indirection_tables,
        /// The maximum number of receive work queues of such a table.
        pub max_rwq_indirection_table_size: u32 = c.rss_caps.max_rwq_indirection_table_size,
        /// The hash functions.
        pub rx_hash_function: u8 = c.rss_caps.rx_hash_function,
        /// The fields of packets that may be hashed.
        pub rx_hash_fields_mask: u64 = c.rss_caps.rx_hash_fields_mask,
        /// The maximum number of receive work queues.
        pub max_wq_type_rq: u32 = c.max_wq_type_rq,
        /// The lowest rate of a queue pair, kbit/s.
        pub qp_rate_limit_min: u32 = c.packet_pacing_caps.qp_rate_limit_min,
        /// The highest rate of a queue pair, kbit/s; 0 if rates cannot be limited.
        pub qp_rate_limit_max: u32 = c.packet_pacing_caps.qp_rate_limit_max,
        /// The queue pair types whose rate may be limited.
        pub packet_pacing_qpts: QpTypes = QpTypes(c.packet_pacing_caps.supported_qpts),
        /// Abilities of raw packets.
        pub raw_packet_caps: u32 = c.raw_packet_caps,
        /// The maximum number of tags of a shared receive queue with tag matching; 0 if the device
        /// does not support it.
        pub tm_max_num_tags: u32 = c.tm_caps.max_num_tags,
        /// The longest header of a rendezvous, bytes.
        pub tm_max_rndv_hdr_size: u32 = c.tm_caps.max_rndv_hdr_size,
        /// The transports of tag matching.
        pub tm_flags: u32 = c.tm_caps.flags,
        /// The maximum number of operations on tags at a time.
        pub tm_max_ops: u32 = c.tm_caps.max_ops,
        /// The maximum number of scatter/gather elements of a tagged buffer.
        pub tm_max_sge: u32 = c.tm_caps.max_sge,
        /// The maximum number of completions for one event; 0 if events cannot be moderated.
        pub max_cq_count: u16 = c.cq_mod_caps.max_cq_count,
        /// The longest time until an event, µs.
        pub max_cq_period: u16 = c.cq_mod_caps.max_cq_period,
        /// Memory on the device, bytes.
        pub max_dm_size: u64 = c.max_dm_size,
        /// Sizes of FETCH_AND_ADD on the bus: 1 is 4 bytes, 2 is 8, 4 is 16, or a sum.
        pub pci_fetch_add: u16 = c.pci_atomic_caps.fetch_add,
        /// Sizes of swaps.
        pub pci_swap: u16 = c.pci_atomic_caps.swap,
        /// Sizes of compare-and-swaps.
        pub pci_compare_swap: u16 = c.pci_atomic_caps.compare_swap,
        /// The number of ports, even if it exceeds 8 bits.
        pub phys_port_cnt_ex: u32 = c.phys_port_cnt_ex,
    }
}

impl DeviceAttrEx {
    /// The clock of completion timestamps; `None` if the device has none, or does not report its
    /// frequency.
    pub fn clock(&self) -> Option<Clock> {
        let has_both = self.completion_timestamp_mask != 0 && self.hca_core_clock != 0;
        has_both.then_some(Clock { mask: self.completion_timestamp_mask, khz: self.hca_core_clock })
    }

    /// Whether this bit of `device_cap_flags_ex` is set.
    #[doc(hidden)]
    pub fn has(&self, bit: u32) -> bool {
        self.device_cap_flags_ex & 1 << bit != 0
    }
}

/// A set of queue pair types that support a feature, in [`DeviceAttrEx`] (`ibv_is_qpt_supported`).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::QpTypes;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let paced: QpTypes = context.query_device_ex()?.packet_pacing_qpts;
/// assert_eq!((paced.contains::<Rc>(), paced.bits()), (true, 1 << 2)); // RC alone: IBV_QPT_RC is 2
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QpTypes(pub(super) u32);

impl QpTypes {
    /// Whether the set contains the type of this transport.
    #[doc(alias = "ibv_is_qpt_supported")]
    pub fn contains<T: Transport>(self) -> bool {
        self.has(T::QP_TYPE)
    }

    /// Driver-specific types have no bit.
    #[doc(hidden)]
    pub fn has(self, qp_type: u32) -> bool {
        1u32.checked_shl(qp_type).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Bit n is `enum ibv_qp_type` n, including types that this crate does not have.
    pub fn bits(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::transport::{Rc, Uc, Ud};

    #[test]
    fn queue_pair_types_are_bits() {
        let has = |set: QpTypes| (set.contains::<Rc>(), set.contains::<Uc>(), set.contains::<Ud>());
        let of = |bits| has(QpTypes(bits));
        // IBV_QPT_RC is 2, UC 3, UD 4.
        let found = [1 << 2, 1 << 3, 1 << 4, !0b11100].map(of);
        let (yes, no) = (true, false);
        assert_eq!(found, [(yes, no, no), (no, yes, no), (no, no, yes), (no, no, no)]);
        assert_eq!(QpTypes(0b101).bits(), 0b101);
    }
}
