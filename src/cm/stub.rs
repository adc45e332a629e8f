//! Ids that note their calls, for the tests of this module.

#![allow(unsafe_code)] // ids without a C object

use std::ffi::c_int;

pub use crate::sys::cm::stub::{
    CONNECTING, answer, answer_leaving, be_readable_in_silence, event, seen,
};
use crate::sys::cm::stub::{Forged, forged, forged_channel, forged_port};
use crate::sys::cm::{Channel, Id};

pub fn id(key: u64, saw: Option<(u32, c_int)>) -> Id {
    // SAFETY: the tests forget it.
    unsafe { forged(Forged::Plain, key, saw) }
}

pub fn noting(key: u64) -> Id {
    // SAFETY: the tests make calls that are noted.
    unsafe { forged(Forged::Noting, key, None) }
}

pub fn connecting(key: u64) -> Id {
    // SAFETY: the test connects it, which is noted.
    unsafe { forged(Forged::Connecting, key, None) }
}

pub fn silent_channel() -> Channel {
    // SAFETY: the tests make no ids on it.
    unsafe { forged_channel() }
}

pub fn set_port(id: &Id, port: u8) {
    // SAFETY: an id of this module, which its test alone has.
    unsafe { forged_port(id, port) };
}
