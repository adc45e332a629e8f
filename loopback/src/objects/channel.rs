//! Completion channels: a queue of events, and a descriptor that signals them.

#![allow(unsafe_code)] // A pointer between threads.

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::objects::signal::Signal;
use proverbs_sys::types::ibv_cq;

pub(crate) struct Channel {
    pub(crate) device: u32,
    pub(crate) signal: Signal,
    /// The number of armed CQs on the channel.
    pub(crate) armed: u32,
    /// The CQs that have an event.
    pub(crate) events: VecDeque<u32>,
}

/// The C object of a CQ, by which an event names it.
#[derive(Clone, Copy)]
pub(crate) struct Event(pub(crate) NonNull<ibv_cq>);

// SAFETY: the fabric only hands the pointer back to the C boundary, and never dereferences it.
unsafe impl Send for Event {}

impl Channel {
    pub(crate) fn push(&mut self, cq: u32) {
        self.events.push_back(cq);
        self.signal.raise();
    }

    /// There is work: wakes a thread that sleeps until an armed CQ has something.
    pub(crate) fn ring(&mut self) {
        if self.armed > 0 {
            self.signal.raise();
        }
    }
}
