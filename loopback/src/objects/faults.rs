//! The faults of a fabric, and the messages that they delay.

use std::ffi::c_int;

use crate::words::address::{Address, Gid};
use crate::words::injected::Injected;
use crate::words::script::Script;
use crate::words::wr::Message;

/// The faults of a fabric.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) script: Script,
    pub(crate) injected: Injected,
    /// Delayed messages, in the order in which they were sent.
    pub(crate) late: Vec<Late>,
    /// Runs of the engine so far.
    pub(crate) runs: u64,
}

pub(crate) struct Late {
    pub(crate) due: u64,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) message: Message,
    /// The Q_Key and the addresses of a datagram.
    pub(crate) datagram: Option<(u32, Address, Gid)>,
}

/// Why a post stops.
pub(crate) enum Stop {
    /// Refused at this work request, which is reported in `bad_wr`.
    Refused(c_int),
    /// Stopped at an unreported work request. `taken` says whether this one and the rest are
    /// accepted anyway.
    Unknown { errno: c_int, taken: bool },
}

impl From<c_int> for Stop {
    fn from(errno: c_int) -> Stop {
        Stop::Refused(errno)
    }
}
