//! Completion channels: a queue of events, and a descriptor that signals them.

use std::collections::VecDeque;

use crate::objects::signal::Signal;

pub(crate) struct Channel {
    pub(crate) device: u32,
    pub(crate) signal: Signal,
    /// The number of armed CQs on the channel.
    pub(crate) armed: u32,
    /// The CQs that have an event.
    pub(crate) events: VecDeque<u32>,
}

impl Channel {
    pub(crate) fn push(&mut self, cq: u32) {
        self.events.push_back(cq);
        self.signal.raise();
    }

    /// Wakes a thread that sleeps until an armed CQ has an event, since there is work.
    pub(crate) fn ring(&mut self) {
        if self.armed > 0 {
            self.signal.raise();
        }
    }
}
