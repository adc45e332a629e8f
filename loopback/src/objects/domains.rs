//! Domains: of protection, of threads, of both, and of XRC; and what only one thread may use.

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
    /// The parent domain that it was made on; a completion queue is on none.
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
    /// The device and number of the file that names it.
    pub(crate) inode: Option<(u64, u64)>,
    /// How often it is open.
    pub(crate) opens: u32,
}

/// The domain and the completion queue of a shared receive queue of XRC.
#[derive(Clone, Copy)]
pub(crate) struct OfXrc {
    pub(crate) xrcd: u32,
    pub(crate) cq: u32,
}

pub(crate) struct Ah {
    pub(crate) pd: u32,
    pub(crate) address: Address,
}
