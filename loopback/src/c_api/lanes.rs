//! Thread domains and parent domains.

#![allow(unsafe_code)] // C objects.

use super::{Domain, Thread, destroy, hand_out, number_beside, verb};
use crate::state::State;
use crate::words::Verb;
use proverbs_sys::control::Created;
use proverbs_sys::lanes::ibv_td;
use proverbs_sys::types::*;

pub(super) unsafe fn alloc_td(context: *mut ibv_context) -> Created<ibv_td> {
    // SAFETY: `context` is live (the verb's contract).
    let number = unsafe { verb(context, State::alloc_td) }?;
    Ok(hand_out(Thread { td: ibv_td { context }, number }).cast())
}

pub(super) unsafe fn alloc_parent_domain(pd: *mut ibv_pd, td: *mut ibv_td) -> Created<ibv_pd> {
    // SAFETY: both domains are live (the verb's contract), and each one is a `Domain`.
    unsafe {
        let td = number_beside(pd, td).ok_or(libc::EINVAL)?;
        let joint = verb(pd, |state, pd| state.alloc_parent_domain(pd, td))?;
        let of = (*pd.cast::<Domain>()).pd;
        Ok(hand_out(Domain { pd: of, joint: Some(joint) }).cast())
    }
}

pub(super) unsafe fn dealloc_pd(pd: *mut ibv_pd) -> Verb {
    // SAFETY: `pd` is live, and not used afterwards (the verb's contract). Each one is a `Domain`.
    unsafe {
        let joint = (*pd.cast::<Domain>()).joint;
        destroy(pd, |state, pd| match joint {
            Some(joint) => state.dealloc_parent_domain(joint),
            None => state.dealloc_pd(pd),
        })
    }
}
