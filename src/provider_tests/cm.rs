//! Ids that record their calls, for the tests of `cm`.

use std::ffi::c_int;

use crate::sys::cm::Id;
use crate::sys::cm::stub::{Forged, forged};
pub use crate::sys::cm::stub::{answer, event, seen};

pub fn id(key: u64, saw: Option<(u32, c_int)>) -> Id {
    // SAFETY: the tests leak it.
    unsafe { forged(Forged::Plain, key, saw) }
}

pub fn noting(key: u64) -> Id {
    // SAFETY: the tests make only calls that are recorded.
    unsafe { forged(Forged::Noting, key, None) }
}
