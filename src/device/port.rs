//! What a port says of itself: `ibv_query_port`.

#[cfg(test)]
mod tests;

use crate::sys::extended;
use crate::sys::types::{LINK_LAYER_ETHERNET, LINK_LAYER_INFINIBAND, ibv_port_state};
use crate::terms::bounded::Mtu;

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
pub struct PortAttr {
    /// Whether the port can send and receive: `state` is [`PortState::Active`].
    pub is_active: bool,
    /// The state of the link.
    pub state: PortState,
    /// InfiniBand or Ethernet (RoCE).
    pub link_layer: LinkLayer,
    /// The port's largest MTU.
    pub max_mtu: Option<Mtu>,
    /// The MTU in use.
    pub active_mtu: Option<Mtu>,
    /// Entries of the GID table.
    pub gid_tbl_len: u32,
    /// Entries of the P_Key table.
    pub pkey_tbl_len: u16,
    /// Longest message, bytes.
    pub max_msg_sz: u32,
    /// Packets with a P_Key that is not in the table; devices stop counting at 65535.
    pub bad_pkey_cntr: u32,
    /// Datagrams with another Q_Key than their queue pair's, which are dropped without any other
    /// notice ([R5.5](crate::guide::rules#r5-5)); devices stop counting at 65535.
    pub qkey_viol_cntr: u32,
    /// The LID (0 on RoCE).
    pub lid: u16,
    /// LID mask: the port has 2^lmc LIDs.
    pub lmc: u8,
    /// The LID of the subnet manager (0 on RoCE).
    pub sm_lid: u16,
    /// Abilities of the port, in the bits of the InfiniBand PortInfo.
    pub port_cap_flags: u32,
    /// More of them.
    pub port_cap_flags2: u16,
    /// The greatest number of virtual lanes, in the code of the InfiniBand PortInfo: 1 is one lane,
    /// 2 two, 3 four, 4 eight, 5 fifteen.
    pub max_vl_num: u8,
    /// The service level of the subnet manager.
    pub sm_sl: u8,
    /// The longest time through the subnet: 4.096 µs * 2^value.
    pub subnet_timeout: u8,
    /// What the subnet manager did with the port.
    pub init_type_reply: u8,
    /// The physical state, in the code of the InfiniBand PortInfo: 5 is link up.
    pub phys_state: u8,
    /// The width, in the code of ibv_query_port(3), of which `lanes` is the meaning.
    pub active_width: u8,
    /// The speed of a lane, in the code of ibv_query_port(3), of which `lane_speed` is the meaning.
    pub active_speed: u32,
    /// Lanes of the link, if known.
    pub lanes: Option<u8>,
    /// Signalling rate of a lane, tenths of Gbit/s, if known: up to 2000 (XDR), which a library
    /// before rdma-core 49 reports as 1000 or not at all.
    pub lane_speed: Option<u16>,
}

/// The state of a link (`state` of ibv_query_port(3), in a [`PortAttr`]).
#[doc(alias("ibv_port_state_str", "ibv_port_state"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortState {
    /// Not connected, or disabled.
    #[doc(alias = "IBV_PORT_DOWN")]
    Down,
    /// The link is up; the subnet manager has not configured it.
    #[doc(alias = "IBV_PORT_INIT")]
    Initializing,
    /// Configured, and not yet in use.
    #[doc(alias = "IBV_PORT_ARMED")]
    Armed,
    /// In use.
    #[doc(alias = "IBV_PORT_ACTIVE")]
    Active,
    /// In use, after an error that may be transient.
    #[doc(alias = "IBV_PORT_ACTIVE_DEFER")]
    ActiveDefer,
    /// A state that this crate does not know.
    #[doc(alias = "IBV_PORT_NOP")]
    Unknown,
}

/// The kind of network at a port (`link_layer` of ibv_query_port(3), in a [`PortAttr`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// An InfiniBand subnet: peers have LIDs.
    #[doc(alias = "IBV_LINK_LAYER_INFINIBAND")]
    InfiniBand,
    /// Ethernet: RoCE, where peers have GIDs only ([R5.4](crate::guide::rules#r5-4)), or iWARP
    /// ([`Context::protocol`](super::Context::protocol)).
    #[doc(alias = "IBV_LINK_LAYER_ETHERNET")]
    Ethernet,
    /// The device does not say.
    #[doc(alias = "IBV_LINK_LAYER_UNSPECIFIED")]
    Unknown,
}

impl LinkLayer {
    pub(super) fn from_c(c: u8) -> Self {
        match c {
            LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
            LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            _ => LinkLayer::Unknown,
        }
    }
}

impl PortAttr {
    pub(crate) fn from_c(attr: &extended::PortAttr) -> Self {
        let c = attr.get();
        let speed = match attr.active_speed_ex() {
            0 => c.active_speed.into(),
            speed => speed,
        };
        PortAttr {
            is_active: c.state == ibv_port_state::IBV_PORT_ACTIVE,
            state: match c.state {
                ibv_port_state::IBV_PORT_DOWN => PortState::Down,
                ibv_port_state::IBV_PORT_INIT => PortState::Initializing,
                ibv_port_state::IBV_PORT_ARMED => PortState::Armed,
                ibv_port_state::IBV_PORT_ACTIVE => PortState::Active,
                ibv_port_state::IBV_PORT_ACTIVE_DEFER => PortState::ActiveDefer,
                _ => PortState::Unknown,
            },
            link_layer: LinkLayer::from_c(c.link_layer),
            max_mtu: Mtu::from_c(c.max_mtu),
            active_mtu: Mtu::from_c(c.active_mtu),
            gid_tbl_len: c.gid_tbl_len.max(0) as u32,
            pkey_tbl_len: c.pkey_tbl_len,
            max_msg_sz: c.max_msg_sz,
            bad_pkey_cntr: c.bad_pkey_cntr,
            qkey_viol_cntr: c.qkey_viol_cntr,
            lid: c.lid,
            lmc: c.lmc,
            sm_lid: c.sm_lid,
            port_cap_flags: c.port_cap_flags,
            port_cap_flags2: c.port_cap_flags2,
            max_vl_num: c.max_vl_num,
            sm_sl: c.sm_sl,
            subnet_timeout: c.subnet_timeout,
            init_type_reply: c.init_type_reply,
            phys_state: c.phys_state,
            active_width: c.active_width,
            active_speed: speed,
            lanes: match c.active_width {
                1 => Some(1),
                2 => Some(4),
                4 => Some(8),
                8 => Some(12),
                16 => Some(2),
                _ => None,
            },
            lane_speed: match speed {
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
}
