//! Protection domains, thread domains, parent domains and XRC domains, and the objects that only
//! one thread may use.

use std::thread;
use std::thread::ThreadId;

use crate::words::address::Address;
use crate::words::contract::broken;

pub(crate) struct Pd {
    pub(crate) device: u32,
}

/// A thread domain.
pub(crate) struct Td {
    pub(crate) device: u32,
    pub(crate) thread: ThreadId,
}

/// A parent domain.
pub(crate) struct Joint {
    pub(crate) pd: u32,
    pub(crate) td: u32,
}

/// A queue pair, shared receive queue or completion queue that one thread uses.
pub(crate) struct Member {
    pub(crate) thread: ThreadId,
    /// The parent domain that it was made on; `None` for a completion queue.
    pub(crate) joint: Option<u32>,
}

pub(crate) fn check(thread: ThreadId) {
    if thread != thread::current().id() {
        broken("two threads use one lane, so their calls may overlap");
    }
}

/// An XRC domain.
pub(crate) struct Xrcd {
    pub(crate) device: u32,
    /// The device and inode of the file that names it.
    pub(crate) inode: Option<(u64, u64)>,
    /// How many times it is open.
    pub(crate) opens: u32,
}

/// The XRC domain and the completion queue of an XRC shared receive queue.
#[derive(Clone, Copy)]
pub(crate) struct OfXrc {
    pub(crate) xrcd: u32,
    pub(crate) cq: u32,
}

pub(crate) struct Ah {
    pub(crate) pd: u32,
    pub(crate) address: Address,
}
