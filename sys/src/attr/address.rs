//! Address vectors: the path to a peer.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::terms::bounded::ServiceLevel;
use crate::terms::gid::Gid;
use crate::terms::rate::StaticRate;
use crate::types::{ibv_ah_attr, ibv_gid, ibv_global_route, zeroed};

/// The global route of a path, the GRH of its packets (`struct ibv_global_route` of
/// ibv_create_ah(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::GlobalRoute;
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// let gid = context.roce_v2_gid(1)?;
/// let route = GlobalRoute { traffic_class: 106, ..GlobalRoute::new(gid.gid(), gid.index()) };
/// let direct = AddressVector::roce_v2(gid, gid.gid())?;
/// let to_myself = AddressVector { global: Some(route), ..direct };
/// assert_eq!(to_myself.global.map(|route| route.hop_limit), Some(64));
/// assert!(pd.create_ah(to_myself).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_global_route")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GlobalRoute {
    /// The destination.
    pub dgid: Gid,
    /// The index of the source in the port's GID table; the table must have an entry there
    /// ([R8.5]).
    ///
    /// [R8.5]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-5
    pub sgid_index: u8,
    /// The largest number of routers on the path, as in IP.
    pub hop_limit: u8,
    /// IP traffic class.
    pub traffic_class: u8,
    /// IPv6 flow label, 20 bits; higher bits are ignored.
    pub flow_label: u32,
}

impl GlobalRoute {
    /// A route with hop limit 64 and no traffic class or flow label.
    pub fn new(dgid: Gid, sgid_index: u8) -> Self {
        GlobalRoute { dgid, sgid_index, hop_limit: 64, traffic_class: 0, flow_label: 0 }
    }

    /// The UDP source port of RoCE v2 that represents the flow label
    /// (`ibv_flow_label_to_udp_sport`); routers use it to choose among paths of equal cost. Devices
    /// that derive the port from the flow label use this port. Without a flow label they may choose
    /// another port.
    ///
    /// ```
    /// use proverbs::device::{Gid, GlobalRoute};
    /// let route = GlobalRoute { flow_label: 0x0_4321, ..GlobalRoute::new(Gid::default(), 1) };
    /// assert_eq!(route.udp_sport(), 0xc320);
    /// ```
    #[doc(alias = "ibv_flow_label_to_udp_sport")]
    pub fn udp_sport(&self) -> u16 {
        let label = self.flow_label & 0xf_ffff;
        (label & 0x3fff ^ label >> 14) as u16 | 0xc000
    }
}

/// An address vector (`struct ibv_ah_attr` of ibv_create_ah(3)). On RoCE it needs a global route
/// ([R5.4]); on InfiniBand a LID may be enough.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::{Gid, GlobalRoute};
/// let gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
/// // Port 1, from entry 3 of its GID table. `Context::roce_v2_gid` finds the entry, and
/// // `AddressVector::roce_v2` takes it.
/// let roce = AddressVector::roce(1, gid, 3);
/// assert_eq!(roce.global, Some(GlobalRoute::new(gid, 3)));
/// let infiniband = AddressVector::infiniband(1, 4); // port 1, to LID 4
/// assert_eq!((infiniband.dlid, infiniband.global), (4, None));
/// let from_its_second_lid = AddressVector { src_path_bits: 1, ..infiniband };
/// # let _ = from_its_second_lid;
/// ```
///
/// [R5.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-4
#[doc(alias("ibv_ah_attr", "is_global", "port_num"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressVector {
    /// The port to send from. In a transition of an RC or UC queue pair, the queue pair's own port
    /// is used instead ([R8.4]).
    ///
    /// [R8.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-4
    pub port: u8,
    /// The destination's LID (InfiniBand; 0 on RoCE).
    pub dlid: u16,
    /// The service level.
    pub sl: ServiceLevel,
    /// The rate that the path may carry (InfiniBand).
    pub static_rate: StaticRate,
    /// The lowest bits of the LID to send from (InfiniBand; ignored on RoCE). A port has 2^lmc
    /// LIDs, which differ in these bits ([`PortAttr::lmc`](crate::attr::port::PortAttr::lmc),
    /// [R24.9]). If the destination also has several LIDs, the two LIDs together choose a path of
    /// the subnet.
    ///
    /// [R24.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r24-9
    pub src_path_bits: u8,
    /// The global route.
    pub global: Option<GlobalRoute>,
}

impl AddressVector {
    /// The address vector of a RoCE path.
    pub fn roce(port: u8, dgid: Gid, sgid_index: u8) -> Self {
        let global = Some(GlobalRoute::new(dgid, sgid_index));
        AddressVector { global, ..AddressVector::infiniband(port, 0) }
    }

    /// The address vector of a path within an InfiniBand subnet.
    pub fn infiniband(port: u8, dlid: u16) -> Self {
        let (sl, static_rate) = (ServiceLevel::default(), StaticRate::default());
        AddressVector { port, dlid, sl, static_rate, src_path_bits: 0, global: None }
    }

    #[doc(hidden)]
    pub fn from_c(c: &ibv_ah_attr) -> Self {
        let global = (c.is_global != 0).then_some(GlobalRoute {
            dgid: c.grh.dgid.into(),
            sgid_index: c.grh.sgid_index,
            hop_limit: c.grh.hop_limit,
            traffic_class: c.grh.traffic_class,
            flow_label: c.grh.flow_label,
        });
        let sl = ServiceLevel::new(c.sl & 15).unwrap_or_default();
        let static_rate = StaticRate::from_c(c.static_rate).unwrap_or_default();
        let (port, src_path_bits) = (c.port_num, c.src_path_bits);
        AddressVector { port, dlid: c.dlid, sl, static_rate, src_path_bits, global }
    }

    #[doc(hidden)]
    pub fn to_c(self) -> ibv_ah_attr {
        let global = self.global.unwrap_or(GlobalRoute::new(Gid::default(), 0));
        ibv_ah_attr {
            grh: ibv_global_route {
                dgid: ibv_gid { raw: global.dgid.0 },
                flow_label: global.flow_label & 0xf_ffff,
                sgid_index: global.sgid_index,
                hop_limit: global.hop_limit,
                traffic_class: global.traffic_class,
                ..zeroed()
            },
            dlid: self.dlid,
            sl: self.sl.get(),
            static_rate: self.static_rate.to_c(),
            src_path_bits: self.src_path_bits,
            is_global: self.global.is_some() as u8,
            port_num: self.port,
            ..zeroed()
        }
    }
}

impl fmt::Display for AddressVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.port)?;
        match self.global {
            Some(g) => write!(f, ", dgid {}, sgid_index {}", g.dgid, g.sgid_index),
            None => write!(f, ", dlid {}", self.dlid),
        }
    }
}
