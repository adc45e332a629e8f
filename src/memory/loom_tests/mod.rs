//! Models of buffers that are taken, returned and searched for, on several threads: `cargo xtask
//! test loom` runs them.

#![allow(unsafe_code)] // owns posted handles, and contexts that loom watches

mod arenas;
mod orphaned;
mod owning_handle;
mod pools;

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::counters::queue_counters::CompletionCounter;
use crate::memory::header::{Handle, Header};

type Pool<C> = crate::memory::Pool<C, Box<[u64]>>;

/// A handle that the device owns. Dropping this has no effect.
#[derive(Clone, Copy)]
struct Posted(NonNull<Header>);

// SAFETY: a word.
unsafe impl Send for Posted {}

/// Posts a handle to the queue with this counter, which is alive.
fn give(handle: impl Handle, counter: *const CompletionCounter) -> Posted {
    let handle = ManuallyDrop::new(handle);
    handle.header().give(counter);
    Posted(NonNull::from(handle.header()))
}
