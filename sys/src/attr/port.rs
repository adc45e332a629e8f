//! The attributes of a port: `ibv_query_port`.

#[cfg(test)]
mod tests;

use crate::extended;
use crate::terms::bounded::Mtu;
use crate::types::{LINK_LAYER_ETHERNET, LINK_LAYER_INFINIBAND, ibv_port_attr, ibv_port_state};

decoded! {
    /// The state of a port (ibv_query_port(3)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::{LinkLayer, PortAttr, PortState};
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let port: PortAttr = context.query_port(1)?;
    /// assert_eq!((port.state, port.link_layer), (PortState::Active, LinkLayer::Ethernet));
    /// assert_eq!((port.active_mtu, port.lid), (Some(Mtu::Bytes4096), 0)); // RoCE: no LIDs
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ibv_port_attr")]
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub struct PortAttr = decoded(c: &ibv_port_attr, speed: u32) {
        /// Whether the port can send and receive: `state` is [`PortState::Active`].
        pub is_active: bool = c.state == ibv_port_state::IBV_PORT_ACTIVE,
        /// The state of the link.
        pub state: PortState = PortState::from_c(c.state),
        /// InfiniBand or Ethernet (RoCE).
        pub link_layer: LinkLayer = LinkLayer::from_c(c.link_layer),
        /// The port's largest MTU.
        pub max_mtu: Option<Mtu> = Mtu::from_c(c.max_mtu),
        /// The MTU in use.
        pub active_mtu: Option<Mtu> = Mtu::from_c(c.active_mtu),
        /// The number of entries of the GID table.
        pub gid_tbl_len: u32 = c.gid_tbl_len.max(0) as u32,
        /// The number of entries of the P_Key table.
        pub pkey_tbl_len: u16 = c.pkey_tbl_len,
        /// Longest message, bytes.
        pub max_msg_sz: u32 = c.max_msg_sz,
        /// Packets with a P_Key that is not in the table; devices stop counting at 65535.
        pub bad_pkey_cntr: u32 = c.bad_pkey_cntr,
        /// Datagrams with another Q_Key than their queue pair's, which are dropped without any
        /// other notice ([R5.5]); devices stop counting at 65535.
        ///
        /// [R5.5]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-5
        pub qkey_viol_cntr: u32 = c.qkey_viol_cntr,
        /// The LID (0 on RoCE).
        pub lid: u16 = c.lid,
        /// LID mask: the port has 2^lmc LIDs.
        pub lmc: u8 = c.lmc,
        /// The LID of the subnet manager (0 on RoCE).
        pub sm_lid: u16 = c.sm_lid,
        /// Abilities of the port, in the bits of the InfiniBand PortInfo.
        pub port_cap_flags: u32 = c.port_cap_flags,
        /// Further abilities of the port.
        pub port_cap_flags2: u16 = c.port_cap_flags2,
        /// The greatest number of virtual lanes, in the code of the InfiniBand PortInfo: 1 is one
        /// lane, 2 two, 3 four, 4 eight, 5 fifteen.
        pub max_vl_num: u8 = c.max_vl_num,
        /// The service level of the subnet manager.
        pub sm_sl: u8 = c.sm_sl,
        /// The longest time through the subnet: 4.096 µs * 2^value.
        pub subnet_timeout: u8 = c.subnet_timeout,
        /// The type of initialisation that the subnet manager performed.
        pub init_type_reply: u8 = c.init_type_reply,
        /// The physical state, in the code of the InfiniBand PortInfo: 5 is link up.
        pub phys_state: u8 = c.phys_state,
        /// The width, in the code of ibv_query_port(3); `lanes` decodes it.
        pub active_width: u8 = c.active_width,
        /// The speed of a lane, in the code of ibv_query_port(3); `lane_speed` decodes it.
        pub active_speed: u32 = speed,
        /// Lanes of the link, if known.
        pub lanes: Option<u8> = match c.active_width {
            1 => Some(1),
            2 => Some(4),
            4 => Some(8),
            8 => Some(12),
            16 => Some(2),
            _ => None,
        },
        /// Signalling rate of a lane, tenths of Gbit/s, if known: up to 2000 (XDR), which a library
        /// before rdma-core 49 reports as 1000 or not at all.
        pub lane_speed: Option<u16> = match speed {
            1 => Some(25),
            2 => Some(50),
            4 | 8 => Some(100),
            16 => Some(140),
            32 => Some(250),
            64 => Some(500),
            128 => Some(1000),
            256 => Some(2000),
            _ => None,
        },
    }
}

decoded_enum! {
    /// The state of a link (`state` of ibv_query_port(3), in a [`PortAttr`]).
    #[doc(alias("ibv_port_state_str", "ibv_port_state"))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum PortState: ibv_port_state::Type, else Unknown {
        /// Not connected, or disabled.
        #[doc(alias = "IBV_PORT_DOWN")]
        Down = ibv_port_state::IBV_PORT_DOWN,
        /// The link is up; the subnet manager has not configured it.
        #[doc(alias = "IBV_PORT_INIT")]
        Initializing = ibv_port_state::IBV_PORT_INIT,
        /// Configured, and not yet in use.
        #[doc(alias = "IBV_PORT_ARMED")]
        Armed = ibv_port_state::IBV_PORT_ARMED,
        /// In use.
        #[doc(alias = "IBV_PORT_ACTIVE")]
        Active = ibv_port_state::IBV_PORT_ACTIVE,
        /// In use, after an error that may be transient.
        #[doc(alias = "IBV_PORT_ACTIVE_DEFER")]
        ActiveDefer = ibv_port_state::IBV_PORT_ACTIVE_DEFER,
        /// A state that this crate does not know.
        #[doc(alias = "IBV_PORT_NOP")]
        Unknown = ibv_port_state::IBV_PORT_NOP,
    }
}

decoded_enum! {
    /// The kind of network at a port (`link_layer` of ibv_query_port(3), in a [`PortAttr`]).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LinkLayer: u8, else Unknown {
        /// An InfiniBand subnet: peers have LIDs.
        #[doc(alias = "IBV_LINK_LAYER_INFINIBAND")]
        InfiniBand = LINK_LAYER_INFINIBAND,
        /// Ethernet: RoCE, where peers have only GIDs ([R5.4]), or iWARP ([`Context::protocol`]).
        ///
        /// [R5.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-4
        /// [`Context::protocol`]:
        /// https://docs.rs/proverbs/latest/proverbs/struct.Context.html#method.protocol
        #[doc(alias = "IBV_LINK_LAYER_ETHERNET")]
        Ethernet = LINK_LAYER_ETHERNET,
        /// The device does not report it.
        #[doc(alias = "IBV_LINK_LAYER_UNSPECIFIED")]
        Unknown = 0,
    }
}

impl PortAttr {
    pub fn from_c(attr: &extended::PortAttr) -> Self {
        let c = attr.get();
        let speed = match attr.active_speed_ex() {
            0 => c.active_speed.into(),
            speed => speed,
        };
        PortAttr::decoded(c, speed)
    }
}
