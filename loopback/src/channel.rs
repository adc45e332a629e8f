//! Completion channels: a queue of events, and a descriptor that signals them.

#![allow(unsafe_code)] // A pointer between threads.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::ptr::NonNull;

use super::Verb;
use super::fabric::State;
use super::signal::Signal;
use proverbs_sys::types::ibv_cq;

pub(super) struct Channel {
    pub(super) device: u32,
    signal: Signal,
    /// The number of armed CQs on the channel.
    pub(super) armed: u32,
    /// The CQs that have an event.
    events: VecDeque<u32>,
}

/// The C object of a CQ, by which an event names it.
#[derive(Clone, Copy)]
pub(super) struct Event(pub(super) NonNull<ibv_cq>);

// SAFETY: the fabric only hands the pointer back to the C boundary, and never dereferences it.
unsafe impl Send for Event {}

impl Channel {
    fn push(&mut self, cq: u32) {
        self.events.push_back(cq);
        self.signal.raise();
    }

    /// There is work: wakes a thread that sleeps until an armed CQ has something.
    pub(super) fn ring(&mut self) {
        if self.armed > 0 {
            self.signal.raise();
        }
    }
}

impl State {
    /// Returns the channel's number and its descriptor.
    pub(super) fn create_channel(&mut self, device: u32) -> Verb<(u32, c_int)> {
        self.check_alive(device)?;
        let number = self.number()?;
        let signal = Signal::new()?;
        let fd = signal.fd();
        let channel = Channel { device, signal, armed: 0, events: VecDeque::new() };
        self.channels.insert(number, channel);
        Ok((number, fd))
    }

    pub(super) fn destroy_channel(&mut self, channel: u32) -> Verb {
        self.destroy_fault(None)?;
        if self.cqs.values().any(|cq| cq.channel == Some(channel)) {
            return Err(libc::EBUSY);
        }
        self.channels.remove(&channel).map(drop).ok_or(libc::EINVAL)
    }

    pub(super) fn raise_event(&mut self, channel: u32, cq: u32) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.push(cq);
        }
    }

    /// Drops the events of a CQ that is destroyed.
    pub(super) fn forget_events(&mut self, channel: u32, cq: u32) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.events.retain(|&event| event != cq);
            if channel.events.is_empty() {
                channel.signal.lower();
            }
        }
    }

    /// Takes and acknowledges the next event and returns its queue; `EAGAIN` if there is none.
    pub(super) fn try_event(&mut self, channel: u32) -> Verb<Event> {
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
