//! What a device is among others, what it says of now, and where things are in its tables.

#![allow(unsafe_code)] // verbs that ask

use crate::device::attr_ex::{Can, Timestamps};
use crate::device::context::Context;
use crate::device::decoded::decoded_enum;
use crate::sys::query::{RAW_CLOCK, ibv_values_ex};
use crate::sys::types::zeroed;
use crate::terms::error::{Error, ErrorKind};
use crate::terms::transport::Transport;

decoded_enum! {
    /// The kind of a node (`node_type` of ibv_get_device_list(3)): [`Context::node_type`].
    #[doc(alias("ibv_node_type", "ibv_device"))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum NodeType: i32, else Unknown {
        /// A channel adapter: InfiniBand, and RoCE.
        #[doc(alias = "IBV_NODE_CA")]
        ChannelAdapter = 1,
        /// A switch.
        #[doc(alias = "IBV_NODE_SWITCH")]
        PolledQueue = 2,
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
        /// One that has no name in verbs.
        #[doc(alias = "IBV_NODE_UNSPECIFIED")]
        Unspecified = 7,
        /// One that this crate does not know.
        #[doc(alias = "IBV_NODE_UNKNOWN")]
        Unknown = -1,
    }
}

/// A set of queue pair types, as [`DeviceAttrEx`](super::DeviceAttrEx) tells which of them can do
/// something (`ibv_is_qpt_supported`).
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
    /// Whether this transport's is in it.
    #[doc(alias = "ibv_is_qpt_supported")]
    pub fn contains<T: Transport>(self) -> bool {
        self.has(T::QP_TYPE)
    }

    /// Those of one driver have no bit.
    pub(super) fn has(self, qp_type: u32) -> bool {
        1u32.checked_shl(qp_type).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Bit n is `enum ibv_qp_type` n, also of types that this crate does not have.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Context {
    /// The kind of node that the device is.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::NodeType;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// assert_eq!(context.node_type(), NodeType::ChannelAdapter);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ibv_node_type_str")]
    pub fn node_type(&self) -> NodeType {
        // SAFETY: a device is live as long as a context of it, and its type does not change.
        NodeType::from_c(unsafe { (*(*self.handle.as_ptr()).device).node_type })
    }

    /// The kernel's number for the device (`ibv_get_device_index`), by which netlink and rdma(8)
    /// know it whatever its name is; `None` if kernel or library do not tell.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// let fabric = proverbs::loopback::Fabric::new();
    /// let (one, two) = (fabric.open_device(), fabric.open_device());
    /// assert_ne!(one.device_index(), two.device_index());
    /// ```
    #[doc(alias = "ibv_get_device_index")]
    pub fn device_index(&self) -> Option<u32> {
        // SAFETY: its handle keeps the context open.
        u32::try_from(unsafe { (self.handle.control().device_index)(self.handle.as_ptr()) }).ok()
    }

    /// Where `pkey` is in a port's P_Key table (`ibv_get_pkey_index`): what a queue pair's
    /// [`pkey_index`](crate::qp::ConnectedInit) names. The P_Key is whole, with its bit for full
    /// members (0x8000).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// assert_eq!(context.pkey_index(1, 0xffff)?, 0); // the default partition
    /// let error = context.pkey_index(1, 0x8001).unwrap_err();
    /// assert!(error.to_string().contains("no P_Key 0x8001 in the 1 entries of port 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the table does not have it,
    /// [`ErrorKind::Os`] with the errno of what was asked.
    #[doc(alias = "ibv_get_pkey_index")]
    pub fn pkey_index(&self, port: u8, pkey: u16) -> Result<u16, Error> {
        let len = self.query_port(port)?.pkey_tbl_len;
        for index in 0..len {
            if self.query_pkey(port, index)? == pkey {
                return Ok(index);
            }
        }
        let what = format!("no P_Key {pkey:#06x} in the {len} entries of port {port}");
        Err(Error::new("ibv_get_pkey_index", ErrorKind::NotFound(what)))
    }

    /// The speed of a port in tenths of Gbit/s (`ibv_query_port_speed`), all lanes together and as
    /// it is now: of a bond, that of its active links. Before rdma-core 63, and where the device
    /// does not tell, it is the product of what [`query_port`](Self::query_port) tells.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let port = context.query_port(1)?;
    /// let (lanes, speed) = (port.lanes.ok_or("lanes")?, port.lane_speed.ok_or("speed")?);
    /// assert_eq!(context.query_port_speed(1)?, u64::from(lanes) * u64::from(speed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`] with the errno: EOPNOTSUPP or ENOSYS if neither
    /// tells.
    #[doc(alias = "ibv_query_port_speed")]
    pub fn query_port_speed(&self, port: u8) -> Result<u64, Error> {
        let ask = self.handle.control().query_port_speed;
        // SAFETY: its handle keeps the context open.
        match unsafe { ask(self.handle.as_ptr(), port) } {
            Ok(speed) => Ok(speed),
            Err(errno @ (libc::EOPNOTSUPP | libc::ENOSYS)) => {
                let attr = self.query_port(port)?;
                match (attr.lanes, attr.lane_speed) {
                    (Some(lanes), Some(speed)) => Ok(u64::from(lanes) * u64::from(speed)),
                    _ => Err(Error::os("ibv_query_port_speed", errno, format!("port {port}"))),
                }
            }
            Err(errno) => Err(Error::os("ibv_query_port_speed", errno, format!("port {port}"))),
        }
    }

    /// The time now, in ticks of the clock of completion timestamps (`ibv_query_rt_values_ex`,
    /// `IBV_VALUES_MASK_RAW_CLOCK`): [`Clock::between`](super::Clock::between) says how long ago a
    /// completion was.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::{Can, Timestamps};
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let can: Can<Timestamps> = context.abilities()?.can().ok_or("no clock")?;
    /// let clock = context.query_device_ex()?.clock().ok_or("no frequency")?;
    /// let (earlier, later) = (context.clock_now(&can)?, context.clock_now(&can)?);
    /// assert!(clock.between(earlier, later).as_secs() < 60);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ContextMismatch`] if the proof is another context's.
    /// [`ErrorKind::Os`] with the errno: EOPNOTSUPP if the library or the
    /// device has no such verb, ENODATA if it told something else.
    #[doc(alias("ibv_values_mask", "ibv_query_rt_values_ex", "IBV_VALUES_MASK_RAW_CLOCK"))]
    #[doc(alias("ibv_values_ex", "raw_clock"))]
    pub fn clock_now(&self, can: &Can<Timestamps>) -> Result<u64, Error> {
        const VERB: &str = "ibv_query_rt_values_ex";
        can.check_is_of(self, VERB, "the proof of timestamps and the context")?;
        let mut values = ibv_values_ex { comp_mask: RAW_CLOCK, ..zeroed() };
        let ask = self.handle.control().query_rt_values;
        // SAFETY: its handle keeps the context open.
        match unsafe { ask(self.handle.as_ptr(), &mut values) } {
            Ok(()) if values.comp_mask & RAW_CLOCK == 0 => Err(Error::os(VERB, libc::ENODATA, "")),
            // Providers write ticks into the nanoseconds, and no seconds.
            Ok(()) => Ok(values.raw_clock.tv_nsec as u64),
            Err(errno) => Err(Error::os(VERB, errno, "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider_tests::device_with;
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

    /// A device may answer with another value than it was asked for, or with none.
    #[cfg(feature = "loopback")]
    #[test]
    fn a_clock_that_is_not_told_is_no_time() {
        use crate::loopback::LOOPBACK;
        use crate::sys::control::Control;
        let other = Control {
            query_rt_values: |_, values| {
                (values.comp_mask, values.raw_clock.tv_nsec) = (!RAW_CLOCK, 77);
                Ok(())
            },
            ..LOOPBACK
        };
        let more = Control {
            query_rt_values: |_, values| {
                (values.comp_mask, values.raw_clock.tv_nsec) = (!0, 77);
                Ok(())
            },
            ..LOOPBACK
        };
        let none = Control { query_rt_values: |_, _| Err(libc::EOPNOTSUPP), ..LOOPBACK };
        let told = [other, more, none].map(|control| {
            let context = device_with(crate::loopback::Fabric::new(), control);
            let can: Can<Timestamps> = context.abilities().unwrap().can().unwrap();
            context.clock_now(&can).map_err(|error| error.errno())
        });
        assert_eq!(told, [Err(Some(libc::ENODATA)), Ok(77), Err(Some(libc::EOPNOTSUPP))]);
    }

    #[test]
    fn each_kind_of_node_has_its_number() {
        use NodeType::*;
        let known = [ChannelAdapter, PolledQueue, Router, Rnic, Usnic, UsnicUdp, Unspecified];
        let numbers = [1, 2, 3, 4, 5, 6, 7].map(NodeType::from_c);
        assert_eq!(numbers, known);
        assert_eq!([-1, 0, 8].map(NodeType::from_c), [Unknown; 3]);
    }
}
