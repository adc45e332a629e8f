//! Completion channels.

use std::collections::VecDeque;
use std::ffi::c_int;

use crate::objects::Object;
use crate::objects::channel::Channel;
use crate::objects::signal::Signal;
use crate::state::State;
use crate::words::Verb;
use proverbs_sys::types::ibv_cq;

impl State {
    /// Returns the channel's number and its descriptor.
    pub(crate) fn create_channel(&mut self, device: u32) -> Verb<(u32, c_int)> {
        self.check_alive(device)?;
        let number = self.number()?;
        let signal = Signal::new()?;
        let fd = signal.fd();
        let channel = Channel { device, signal, armed: 0, events: VecDeque::new() };
        self.channels.insert(number, channel);
        Ok((number, fd))
    }

    pub(crate) fn destroy_channel(&mut self, channel: u32) -> Verb {
        self.destroy_fault(None)?;
        if self.cqs.values().any(|cq| cq.channel == Some(channel)) {
            return Err(libc::EBUSY);
        }
        self.channels.remove(&channel).map(drop).ok_or(libc::EINVAL)
    }

    pub(crate) fn raise_event(&mut self, channel: u32, cq: u32) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.push(cq);
        }
    }

    /// Drops the events of a CQ that is destroyed.
    pub(crate) fn forget_events(&mut self, channel: u32, cq: u32) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.events.retain(|&event| event != cq);
            if channel.events.is_empty() {
                channel.signal.lower();
            }
        }
    }

    /// Takes and acknowledges the next event and returns its queue; `EAGAIN` if there is none.
    pub(crate) fn try_event(&mut self, channel: u32) -> Verb<Object<ibv_cq>> {
        let work_left = self.timers_run();
        let queue = self.channels.get_mut(&channel).ok_or(libc::EINVAL)?;
        let taken = queue.events.pop_front();
        if queue.events.is_empty() {
            queue.signal.empty(work_left && queue.armed > 0);
        }
        let cq = self.cqs.get(&taken.ok_or(libc::EAGAIN)?);
        cq.and_then(|cq| cq.object).ok_or(libc::EIO)
    }
}
