//! Thread domains and parent domains.

#![allow(unsafe_code)] // C objects.

use std::ffi::c_int;

use super::{Domain, Thread, errno_of, hand_out, same_context, verb};
use crate::state::State;
use proverbs_sys::control::Created;
use proverbs_sys::lanes::ibv_td;
use proverbs_sys::types::*;

pub(crate) unsafe fn alloc_td(context: *mut ibv_context) -> Created<ibv_td> {
    // SAFETY: `context` is live (the verb's contract).
    let number = unsafe { verb(context, State::alloc_td) }?;
    Ok(hand_out(Thread { td: ibv_td { context }, number }).cast())
}

pub(crate) unsafe fn dealloc_td(td: *mut ibv_td) -> c_int {
    // SAFETY: `td` is live (the verb's contract).
    let result = unsafe { verb(td, State::dealloc_td) };
    if result.is_ok() {
        // SAFETY: `alloc_td` made it as a `Thread`, and it is deallocated only once.
        drop(unsafe { Box::from_raw(td.cast::<Thread>()) });
    }
    errno_of(result)
}

pub(crate) unsafe fn alloc_parent_domain(pd: *mut ibv_pd, td: *mut ibv_td) -> Created<ibv_pd> {
    // SAFETY: both domains are live (the verb's contract).
    let (same, td) = unsafe { (same_context(pd, td), (*td.cast::<Thread>()).number) };
    if !same {
        return Err(libc::EINVAL);
    }
    // SAFETY: `pd` is live (the verb's contract).
    let joint = unsafe { verb(pd, |state, pd| state.alloc_parent_domain(pd, td)) }?;
    // SAFETY: `pd` is live (the verb's contract).
    let of = unsafe { (*pd.cast::<Domain>()).pd };
    Ok(hand_out(Domain { pd: of, joint: Some(joint) }).cast())
}

pub(crate) unsafe fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: `pd` is live (the verb's contract).
    let result = match unsafe { (*pd.cast::<Domain>()).joint } {
        // SAFETY: `pd` is live (the verb's contract).
        Some(joint) => unsafe { verb(pd, |state, _| state.dealloc_parent_domain(joint)) },
        // SAFETY: `pd` is live (the verb's contract).
        None => unsafe { verb(pd, State::dealloc_pd) },
    };
    if result.is_ok() {
        // SAFETY: `alloc_pd` or `alloc_parent_domain` made it as a `Domain`, and it is deallocated
        // only once.
        drop(unsafe { Box::from_raw(pd.cast::<Domain>()) });
    }
    errno_of(result)
}
