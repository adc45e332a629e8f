//! The attributes of devices and ports.

use std::ffi::c_char;
use std::fmt;

use bitflags::bitflags;

use crate::types::{ibv_atomic_cap, ibv_device_attr, ibv_transport_type};

decoded! {
    /// The abilities and limits of a device (ibv_query_device(3)). A limit holds for the device as
    /// a whole; a single object may support less.
    ///
    /// ```
    /// # let context = proverbs::loopback::Fabric::new().open_device();
    /// let attr = context.query_device()?;
    /// assert!(attr.max_qp_wr >= 128 && attr.max_sge >= 1);
    /// # Ok::<(), proverbs::Error>(())
    /// ```
    #[doc(alias = "ibv_device_attr")]
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub struct DeviceAttr = from_c(c: &ibv_device_attr) {
        /// Version of the firmware, in the vendor's form.
        pub fw_ver: String = text(&c.fw_ver),
        /// GUID of the device.
        #[doc(alias = "ibv_get_device_guid")]
        // In memory a GUID is in network order: these are its bytes.
        pub node_guid: Guid = Guid(c.node_guid.to_ne_bytes()),
        /// GUID of the system that the device is part of.
        pub sys_image_guid: Guid = Guid(c.sys_image_guid.to_ne_bytes()),
        /// The longest region, bytes.
        pub max_mr_size: u64 = c.max_mr_size,
        /// Possible page sizes of regions: bit n for 2^n bytes.
        pub page_size_cap: u64 = c.page_size_cap,
        /// The vendor's IEEE number.
        pub vendor_id: u32 = c.vendor_id,
        /// The vendor's number for the device.
        pub vendor_part_id: u32 = c.vendor_part_id,
        /// Version of the hardware.
        pub hw_ver: u32 = c.hw_ver,
        /// The number of ports, which are counted from 1.
        pub phys_port_cnt: u8 = c.phys_port_cnt,
        /// Optional abilities.
        pub device_cap_flags: DeviceCap = DeviceCap::from_bits_retain(c.device_cap_flags),
        /// The maximum number of queue pairs.
        pub max_qp: u32 = count(c.max_qp),
        /// The maximum number of work requests of a queue.
        pub max_qp_wr: u32 = count(c.max_qp_wr),
        /// The maximum number of scatter/gather elements of a work request.
        pub max_sge: u32 = count(c.max_sge),
        /// The maximum number of scatter/gather elements of an RDMA READ, where that differs.
        pub max_sge_rd: u32 = count(c.max_sge_rd),
        /// The maximum number of completion queues.
        pub max_cq: u32 = count(c.max_cq),
        /// The maximum number of entries of a completion queue.
        pub max_cqe: u32 = count(c.max_cqe),
        /// The maximum number of memory regions.
        pub max_mr: u32 = count(c.max_mr),
        /// The maximum number of protection domains.
        pub max_pd: u32 = count(c.max_pd),
        /// The maximum number of reads and atomics that a queue pair may serve at once.
        pub max_qp_rd_atom: u32 = count(c.max_qp_rd_atom),
        /// The maximum number of reads and atomics that the device may serve at once, over all
        /// queue pairs.
        pub max_res_rd_atom: u32 = count(c.max_res_rd_atom),
        /// The maximum number of reads and atomics that a queue pair may have outstanding.
        pub max_qp_init_rd_atom: u32 = count(c.max_qp_init_rd_atom),
        /// The accesses with which the device's atomics are atomic ([R4.9]).
        ///
        /// [R4.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-9
        pub atomic_cap: AtomicCap = AtomicCap::from_c(c.atomic_cap),
        /// The maximum number of memory windows.
        pub max_mw: u32 = count(c.max_mw),
        /// The maximum number of multicast groups.
        pub max_mcast_grp: u32 = count(c.max_mcast_grp),
        /// The maximum number of queue pairs of a multicast group.
        pub max_mcast_qp_attach: u32 = count(c.max_mcast_qp_attach),
        /// The maximum number of address handles.
        pub max_ah: u32 = count(c.max_ah),
        /// The maximum number of shared receive queues.
        pub max_srq: u32 = count(c.max_srq),
        /// The maximum number of receives of a shared receive queue.
        pub max_srq_wr: u32 = count(c.max_srq_wr),
        /// The maximum number of scatter/gather elements of a receive of a shared receive queue.
        pub max_srq_sge: u32 = count(c.max_srq_sge),
        /// RD (which no device has): the maximum number of reads and atomics that an end-to-end
        /// context may serve.
        pub max_ee_rd_atom: u32 = count(c.max_ee_rd_atom),
        /// RD: the maximum number of reads and atomics that an end-to-end context may have
        /// outstanding.
        pub max_ee_init_rd_atom: u32 = count(c.max_ee_init_rd_atom),
        /// RD: the maximum number of end-to-end contexts.
        pub max_ee: u32 = count(c.max_ee),
        /// RD: the maximum number of domains.
        pub max_rdd: u32 = count(c.max_rdd),
        /// The maximum number of raw queue pairs of IPv6.
        pub max_raw_ipv6_qp: u32 = count(c.max_raw_ipv6_qp),
        /// The maximum number of raw queue pairs of an Ethernet type.
        pub max_raw_ethy_qp: u32 = count(c.max_raw_ethy_qp),
        /// The maximum number of queue pairs of all multicast groups together.
        pub max_total_mcast_qp_attach: u32 = count(c.max_total_mcast_qp_attach),
        /// The maximum number of fast memory regions (removed from newer kernels).
        pub max_fmr: u32 = count(c.max_fmr),
        /// Entries of the P_Key table.
        pub max_pkeys: u16 = c.max_pkeys,
        /// The longest time until the device acknowledges: 4.096 µs * 2^value.
        pub local_ca_ack_delay: u8 = c.local_ca_ack_delay,
    }
}

/// A GUID, 8 bytes in network order (`node_guid` of ibv_query_device(3)). It is displayed in the
/// format of `ibv_devinfo`.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::Guid;
/// let guid = Guid([0x02, 0x00, 0x0a, 0xff, 0xfe, 0, 0, 1]);
/// assert_eq!(guid.to_string(), "0200:0aff:fe00:0001");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guid(pub [u8; 8]);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i] = self.0;
        write!(f, "{a:02x}{b:02x}:{c:02x}{d:02x}:{e:02x}{g:02x}:{h:02x}{i:02x}")
    }
}

impl_debug!(Guid, |it| "Guid({it})");

bitflags! {
    /// Optional abilities of a device (`device_cap_flags` of ibv_query_device(3)). Bits without a
    /// name here are kept.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::DeviceCap;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let can = context.query_device()?.device_cap_flags;
    /// for (name, _) in can.iter_names() {
    ///     println!("{name}");
    /// }
    /// assert!(can.contains(DeviceCap::XRC) && !can.contains(DeviceCap::RAW_IP_CSUM));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ibv_device_cap_flags")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct DeviceCap: u32 {
        /// Queues can be resized.
        #[doc(alias = "IBV_DEVICE_RESIZE_MAX_WR")]
        const RESIZE_MAX_WR = 1 << 0;
        /// Wrong P_Keys are counted.
        #[doc(alias = "IBV_DEVICE_BAD_PKEY_CNTR")]
        const BAD_PKEY_CNTR = 1 << 1;
        /// Wrong Q_Keys are counted.
        #[doc(alias = "IBV_DEVICE_BAD_QKEY_CNTR")]
        const BAD_QKEY_CNTR = 1 << 2;
        /// Raw multicast.
        #[doc(alias = "IBV_DEVICE_RAW_MULTI")]
        const RAW_MULTI = 1 << 3;
        /// Automatic path migration.
        #[doc(alias = "IBV_DEVICE_AUTO_PATH_MIG")]
        const AUTO_PATH_MIG = 1 << 4;
        /// The port of a queue pair can change in SQD.
        #[doc(alias = "IBV_DEVICE_CHANGE_PHY_PORT")]
        const CHANGE_PHY_PORT = 1 << 5;
        /// UD sends check the port of the address vector.
        #[doc(alias = "IBV_DEVICE_UD_AV_PORT_ENFORCE")]
        const UD_AV_PORT_ENFORCE = 1 << 6;
        /// `cur_qp_state` is checked.
        #[doc(alias = "IBV_DEVICE_CURR_QP_STATE_MOD")]
        const CURR_QP_STATE_MOD = 1 << 7;
        /// Ports can be shut down.
        #[doc(alias = "IBV_DEVICE_SHUTDOWN_PORT")]
        const SHUTDOWN_PORT = 1 << 8;
        /// Initialisation types.
        #[doc(alias = "IBV_DEVICE_INIT_TYPE")]
        const INIT_TYPE = 1 << 9;
        /// An event reports that a port became active.
        #[doc(alias = "IBV_DEVICE_PORT_ACTIVE_EVENT")]
        const PORT_ACTIVE_EVENT = 1 << 10;
        /// The system image GUID is valid.
        #[doc(alias = "IBV_DEVICE_SYS_IMAGE_GUID")]
        const SYS_IMAGE_GUID = 1 << 11;
        /// RC answers a message without a receive with an RNR NAK.
        #[doc(alias = "IBV_DEVICE_RC_RNR_NAK_GEN")]
        const RC_RNR_NAK_GEN = 1 << 12;
        /// Shared receive queues can be resized.
        #[doc(alias = "IBV_DEVICE_SRQ_RESIZE")]
        const SRQ_RESIZE = 1 << 13;
        /// An event after N completions.
        #[doc(alias = "IBV_DEVICE_N_NOTIFY_CQ")]
        const N_NOTIFY_CQ = 1 << 14;
        /// Memory windows.
        #[doc(alias = "IBV_DEVICE_MEM_WINDOW")]
        const MEM_WINDOW = 1 << 17;
        /// UD checks IP checksums.
        #[doc(alias = "IBV_DEVICE_UD_IP_CSUM")]
        const UD_IP_CSUM = 1 << 18;
        /// The XRC transport.
        #[doc(alias = "IBV_DEVICE_XRC")]
        const XRC = 1 << 20;
        /// Fast registration, local invalidate, send with invalidate.
        #[doc(alias = "IBV_DEVICE_MEM_MGT_EXTENSIONS")]
        const MEM_MGT_EXTENSIONS = 1 << 21;
        /// Memory windows of type 2A.
        #[doc(alias = "IBV_DEVICE_MEM_WINDOW_TYPE_2A")]
        const MEM_WINDOW_TYPE_2A = 1 << 23;
        /// Memory windows of type 2B.
        #[doc(alias = "IBV_DEVICE_MEM_WINDOW_TYPE_2B")]
        const MEM_WINDOW_TYPE_2B = 1 << 24;
        /// RC checks IP checksums.
        #[doc(alias = "IBV_DEVICE_RC_IP_CSUM")]
        const RC_IP_CSUM = 1 << 25;
        /// Raw packets have IP checksums.
        #[doc(alias = "IBV_DEVICE_RAW_IP_CSUM")]
        const RAW_IP_CSUM = 1 << 26;
        /// Flow steering.
        #[doc(alias = "IBV_DEVICE_MANAGED_FLOW_STEERING")]
        const MANAGED_FLOW_STEERING = 1 << 29;
    }
}

decoded_enum! {
    /// The accesses with which a device's atomics are atomic (`atomic_cap` of ibv_query_device(3);
    /// [R4.9]).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::AtomicCap;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// // The processor must not change cells that peers add to: the device does not promise atomicity.
    /// assert_eq!(context.query_device()?.atomic_cap, AtomicCap::Hca);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [R4.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-9
    #[doc(alias = "ibv_atomic_cap")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum AtomicCap: ibv_atomic_cap::Type, else None {
        /// The device has no atomics.
        #[doc(alias = "IBV_ATOMIC_NONE")]
        None = ibv_atomic_cap::IBV_ATOMIC_NONE,
        /// Other atomics of this device.
        #[doc(alias = "IBV_ATOMIC_HCA")]
        Hca = ibv_atomic_cap::IBV_ATOMIC_HCA,
        /// The processor's atomics too.
        #[doc(alias = "IBV_ATOMIC_GLOB")]
        Global = ibv_atomic_cap::IBV_ATOMIC_GLOB,
    }
}

decoded_enum! {
    /// The kind of transport of a device (`enum ibv_transport_type`): [`Context::transport_type`].
    ///
    /// [`Context::transport_type`]:
    /// https://docs.rs/proverbs/latest/proverbs/struct.Context.html#method.transport_type
    #[doc(alias = "ibv_transport_type")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum TransportType: ibv_transport_type::Type, else Unknown {
        /// InfiniBand, and RoCE.
        #[doc(alias = "IBV_TRANSPORT_IB")]
        InfiniBand = ibv_transport_type::IBV_TRANSPORT_IB,
        /// iWARP.
        #[doc(alias = "IBV_TRANSPORT_IWARP")]
        Iwarp = ibv_transport_type::IBV_TRANSPORT_IWARP,
        /// usNIC.
        #[doc(alias = "IBV_TRANSPORT_USNIC")]
        Usnic = ibv_transport_type::IBV_TRANSPORT_USNIC,
        /// usNIC over UDP.
        #[doc(alias = "IBV_TRANSPORT_USNIC_UDP")]
        UsnicUdp = ibv_transport_type::IBV_TRANSPORT_USNIC_UDP,
        /// A transport without a name in verbs.
        #[doc(alias = "IBV_TRANSPORT_UNSPECIFIED")]
        Unspecified = ibv_transport_type::IBV_TRANSPORT_UNSPECIFIED,
        /// A transport that this crate does not know.
        #[doc(alias = "IBV_TRANSPORT_UNKNOWN")]
        Unknown = ibv_transport_type::IBV_TRANSPORT_UNKNOWN,
    }
}

decoded_enum! {
    /// The kind of a node (`node_type` of ibv_get_device_list(3)): [`Context::node_type`].
    ///
    /// [`Context::node_type`]:
    /// https://docs.rs/proverbs/latest/proverbs/struct.Context.html#method.node_type
    #[doc(alias("ibv_node_type", "ibv_device"))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum NodeType: i32, else Unknown {
        /// A channel adapter: InfiniBand, and RoCE.
        #[doc(alias = "IBV_NODE_CA")]
        ChannelAdapter = 1,
        /// A switch.
        #[doc(alias = "IBV_NODE_SWITCH")]
        Switch = 2,
        /// A router.
        #[doc(alias = "IBV_NODE_ROUTER")]
        Router = 3,
        /// An RNIC: iWARP.
        #[doc(alias = "IBV_NODE_RNIC")]
        Rnic = 4,
        /// usNIC.
        #[doc(alias = "IBV_NODE_USNIC")]
        Usnic = 5,
        /// usNIC over UDP.
        #[doc(alias = "IBV_NODE_USNIC_UDP")]
        UsnicUdp = 6,
        /// A node type without a name in verbs.
        #[doc(alias = "IBV_NODE_UNSPECIFIED")]
        Unspecified = 7,
        /// A node type that this crate does not know.
        #[doc(alias = "IBV_NODE_UNKNOWN")]
        Unknown = -1,
    }
}

fn text(c: &[c_char]) -> String {
    c.iter().take_while(|&&b| b != 0).map(|&b| b as u8 as char).collect()
}

fn count(c: i32) -> u32 {
    c.max(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::zeroed;

    #[test]
    fn transports_and_atomics_match_c() {
        use TransportType as Ours;
        use ibv_transport_type as c;
        for (theirs, ours) in [
            (c::IBV_TRANSPORT_IB, Ours::InfiniBand),
            (c::IBV_TRANSPORT_IWARP, Ours::Iwarp),
            (c::IBV_TRANSPORT_USNIC, Ours::Usnic),
            (c::IBV_TRANSPORT_USNIC_UDP, Ours::UsnicUdp),
            (c::IBV_TRANSPORT_UNSPECIFIED, Ours::Unspecified),
            (c::IBV_TRANSPORT_UNKNOWN, Ours::Unknown),
        ] {
            assert_eq!(Ours::from_c(theirs), ours);
        }
        for (atomic_cap, ours) in [
            (ibv_atomic_cap::IBV_ATOMIC_NONE, AtomicCap::None),
            (ibv_atomic_cap::IBV_ATOMIC_HCA, AtomicCap::Hca),
            (ibv_atomic_cap::IBV_ATOMIC_GLOB, AtomicCap::Global),
        ] {
            let c = ibv_device_attr { atomic_cap, max_qp: -1, max_cq: 7, ..zeroed() };
            let attr = DeviceAttr::from_c(&c);
            assert_eq!((attr.atomic_cap, attr.max_qp, attr.max_cq), (ours, 0, 7));
        }
    }

    #[test]
    fn each_kind_of_node_has_its_number() {
        use NodeType::*;
        let known = [ChannelAdapter, Switch, Router, Rnic, Usnic, UsnicUdp, Unspecified];
        let numbers = [1, 2, 3, 4, 5, 6, 7].map(NodeType::from_c);
        assert_eq!(numbers, known);
        assert_eq!([-1, 0, 8].map(NodeType::from_c), [Unknown; 3]);
    }
}
