//! Queries of a device: its identity, its current values, and positions in its tables.

#![allow(unsafe_code)] // query verbs

use crate::device::{Can, Context, NodeType, Timestamps};
use crate::sys::query::{RAW_CLOCK, ibv_values_ex};
use crate::sys::types::zeroed;
use crate::terms::error::{Error, ErrorKind};

impl Context {
    /// The node type of the device.
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
        // SAFETY: a device is live while a context of it is, and its type does not change.
        NodeType::from_c(unsafe { (*(*self.handle.as_ptr()).device).node_type })
    }

    /// The kernel's number of the device (`ibv_get_device_index`). netlink and rdma(8) use it to
    /// identify the device, independent of its name. `None` if the kernel or the library does not
    /// report it.
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

    /// The index of `pkey` in a port's P_Key table (`ibv_get_pkey_index`), for
    /// [`pkey_index`](crate::qp::ConnectedInit) of a queue pair. `pkey` includes the
    /// full-membership bit (0x8000).
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
    /// [`ErrorKind::NotFound`] if the table does not contain it, [`ErrorKind::Os`] with the errno
    /// of the query.
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

    /// The current speed of a port in units of 100 Mbit/s (`ibv_query_port_speed`), for all lanes
    /// together. For a bond, it is the speed of its active links. Before rdma-core 63, and if the
    /// device does not report it, it is computed from the values of
    /// [`query_port`](Self::query_port).
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
    /// [`ErrorKind::Os`] with the errno: EOPNOTSUPP or ENOSYS if neither source is available.
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

    /// The current time, in ticks of the clock of completion timestamps (`ibv_query_rt_values_ex`,
    /// `IBV_VALUES_MASK_RAW_CLOCK`). [`Clock::between`](super::Clock::between) converts it to the
    /// time since a completion.
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
    /// - [`ErrorKind::ContextMismatch`]: the ability belongs to another context.
    /// - [`ErrorKind::Os`] with the errno: EOPNOTSUPP if the library or the device does not have
    ///   the verb, ENODATA if it did not return a clock value.
    #[doc(alias("ibv_values_mask", "ibv_query_rt_values_ex", "IBV_VALUES_MASK_RAW_CLOCK"))]
    #[doc(alias("ibv_values_ex", "raw_clock"))]
    pub fn clock_now(&self, can: &Can<Timestamps>) -> Result<u64, Error> {
        const VERB: &str = "ibv_query_rt_values_ex";
        can.check_is_of(self, VERB, "the ability for timestamps and the context")?;
        let mut values = ibv_values_ex { comp_mask: RAW_CLOCK, ..zeroed() };
        let ask = self.handle.control().query_rt_values;
        // SAFETY: its handle keeps the context open.
        match unsafe { ask(self.handle.as_ptr(), &mut values) } {
            Ok(()) if values.comp_mask & RAW_CLOCK == 0 => Err(Error::os(VERB, libc::ENODATA, "")),
            // Providers write ticks to the nanoseconds, and leave the seconds 0.
            Ok(()) => Ok(values.raw_clock.tv_nsec as u64),
            Err(errno) => Err(Error::os(VERB, errno, "")),
        }
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::provider_tests::device_with;

    /// A device may return another value than the requested one, or none.
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
}
