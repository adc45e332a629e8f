//! Asynchronous events of a device.

use std::ffi::c_int;

use crate::objects::events::Affiliate;
use crate::objects::signal::Signal;
use crate::state::State;
use crate::words::Verb;
use crate::words::transport::Transport;
use proverbs_sys::events::Affiliation;
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::ibv_wc_status as status;
use proverbs_sys::types::raw::ibv_event_type;

impl State {
    pub(crate) fn raise_async(&mut self, device: u32, event: ibv_event_type, of: Affiliate) {
        self.raise_number(device, event as u32, of);
    }

    fn raise_number(&mut self, device: u32, event: u32, of: Affiliate) {
        let queue = self.asyncs.entry(device).or_default();
        queue.events.push_back((event, of));
        if let Some(signal) = &mut queue.signal {
            signal.raise();
        }
    }

    pub(crate) fn raise_qp(&mut self, qp: u32, event: ibv_event_type) {
        if let Some(device) = self.qps.get(&qp).map(|qp| qp.device) {
            self.raise_async(device, event, Affiliate::Qp(qp));
        }
    }

    /// The first message to a queue pair in RTR shows that its peer is in RTS.
    pub(crate) fn establish(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        let connected = !matches!(qp.shape.transport, Transport::Ud | Transport::Srd);
        if connected && qp.phase == Phase::Rtr && !std::mem::replace(&mut qp.established, true) {
            self.raise_qp(number, ibv_event_type::IBV_EVENT_COMM_EST);
        }
    }

    /// A request was refused without a completion on this side. Only the event reports it (R10.17).
    pub(crate) fn raise_refusal(&mut self, qp: u32, cause: status::Type) {
        let event = match cause {
            status::IBV_WC_REM_ACCESS_ERR => ibv_event_type::IBV_EVENT_QP_ACCESS_ERR,
            _ => ibv_event_type::IBV_EVENT_QP_REQ_ERR,
        };
        self.raise_qp(qp, event);
    }

    /// Raises an event of the device or the port. Returns false if `number` is not such an event.
    pub(crate) fn raise_device(&mut self, device: u32, number: u32) -> bool {
        let of = match Affiliation::of(number) {
            Affiliation::Port => Affiliate::Port,
            Affiliation::Device if number != ibv_event_type::IBV_EVENT_WQ_FATAL as u32 => {
                Affiliate::Device
            }
            _ => return false,
        };
        if !self.devices.contains_key(&device) {
            return false;
        }
        self.raise_number(device, number, of);
        true
    }

    /// Stops the device and raises an event. Returns whether it worked until now.
    pub(crate) fn break_device(&mut self, device: u32) -> bool {
        let breaks = self.devices.contains_key(&device) && self.broken.insert(device);
        if breaks {
            self.raise_async(device, ibv_event_type::IBV_EVENT_DEVICE_FATAL, Affiliate::Device);
        }
        breaks
    }

    /// Drops the events of an object that is destroyed.
    pub(crate) fn forget_async(&mut self, device: u32, of: Affiliate) {
        if let Some(queue) = self.asyncs.get_mut(&device) {
            queue.events.retain(|&(_, affiliate)| affiliate != of);
        }
    }

    /// The descriptor, created on first use.
    pub(crate) fn async_fd(&mut self, device: u32) -> Verb<c_int> {
        let queue = self.asyncs.entry(device).or_default();
        if queue.signal.is_none() {
            queue.signal = Some(Signal::new()?);
        }
        let signal = queue.signal.as_mut().ok_or(libc::EIO)?;
        if !queue.events.is_empty() {
            signal.raise();
        }
        Ok(signal.fd())
    }

    pub(crate) fn take_async(&mut self, device: u32) -> Verb<(u32, Affiliate)> {
        let work_left = self.timers_run();
        let queue = self.asyncs.entry(device).or_default();
        let taken = queue.events.pop_front();
        if let (true, Some(signal)) = (queue.events.is_empty(), &mut queue.signal) {
            signal.empty(work_left);
        }
        taken.ok_or(libc::EAGAIN)
    }

    /// Wakes all threads that may sleep on a descriptor, since there is work.
    pub(crate) fn ring(&mut self) {
        for channel in self.channels.values_mut() {
            channel.ring();
        }
        for queue in self.asyncs.values_mut() {
            if let Some(signal) = &mut queue.signal {
                signal.raise();
            }
        }
    }
}
