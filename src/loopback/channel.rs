//! Completion channels: a queue of events, and a file descriptor that is readable while it holds one.
#![allow(unsafe_code)] // One system call that std does not offer, and a pointer between threads.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;

use super::Verb;
use super::fabric::State;
use crate::sys::types::ibv_cq;

pub(super) struct Channel {
    pub(super) device: u32,
    /// The user's descriptor, with one byte to read while `events` is not empty, and its other end.
    /// (An eventfd would be one descriptor less, but Miri cannot tell whether it blocks.)
    signal: UnixStream,
    raise: UnixStream,
    /// The CQs that have an event.
    events: VecDeque<u32>,
}

/// The CQ that a channel hands out.
#[derive(Clone, Copy)]
pub(super) struct Event(pub(super) NonNull<ibv_cq>);

// SAFETY: the fabric only hands it back to its owner, and never follows it.
unsafe impl Send for Event {}

impl Channel {
    fn push(&mut self, cq: u32) {
        if self.events.is_empty() {
            // There is room: at most this one byte is ever in it.
            let _ = self.raise.write(&[1]);
        }
        self.events.push_back(cq);
    }

    fn settle(&mut self, had: bool) {
        if had && self.events.is_empty() {
            // The byte is there, so this does not block.
            let _ = self.signal.read(&mut [0]);
        }
    }
}

impl State {
    /// The channel's number and its descriptor.
    pub(super) fn create_channel(&mut self, device: u32) -> Verb<(u32, c_int)> {
        let failed = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EMFILE);
        let number = self.number()?;
        let (signal, raise) = UnixStream::pair().map_err(failed)?;
        let fd = signal.as_raw_fd();
        let channel = Channel { device, signal, raise, events: VecDeque::new() };
        self.channels.insert(number, channel);
        Ok((number, fd))
    }

    pub(super) fn destroy_channel(&mut self, channel: u32) -> Verb {
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

    /// Drops the events of a CQ that is no more.
    pub(super) fn forget_events(&mut self, channel: u32, cq: u32) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            let had = !channel.events.is_empty();
            channel.events.retain(|&event| event != cq);
            channel.settle(had);
        }
    }

    /// The next event, or `EAGAIN` when there is none and the descriptor is non-blocking.
    /// `None` means wait.
    pub(super) fn take_event(&mut self, channel: u32) -> Option<Verb<Event>> {
        let Some(queue) = self.channels.get_mut(&channel) else {
            return Some(Err(libc::EINVAL));
        };
        if let Some(cq) = queue.events.pop_front() {
            queue.settle(true);
            return Some(self.event_of(cq).ok_or(libc::EIO));
        }
        // SAFETY: a system call on a descriptor that the channel owns.
        let flags = unsafe { libc::fcntl(queue.signal.as_raw_fd(), libc::F_GETFL) };
        (flags >= 0 && flags & libc::O_NONBLOCK != 0).then_some(Err(libc::EAGAIN))
    }
}
