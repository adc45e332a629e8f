//! Completion vectors.

#![allow(unsafe_code)] // reads the C object

use std::sync::{Arc, Weak};

use crate::device::Context;
use crate::sys::handle;
use crate::terms::error::Error;

/// A completion vector of a context (`comp_vector` of ibv_create_cq(3)). On most devices it is an
/// interrupt, whose CPU handles the events of the completion queues on it.
///
/// [`Context::comp_vectors`] returns the vectors, so a vector is never out of range.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let channel = context.create_comp_channel()?;
/// // A queue for each thread, with the events spread over the vectors.
/// let vectors = context.comp_vectors();
/// for (_thread, vector) in (0..4).zip(vectors.iter().cycle()) {
///     let cq: CompletionQueue = context.cq(64).channel(&channel).vector(vector).create()?;
///     # drop(cq);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_context")]
#[derive(Clone)]
pub struct CompVector {
    /// The owner. The context may be closed in the meantime, but its address is not reused.
    context: Weak<handle::Context>,
    index: u32,
}

impl CompVector {
    /// Its number, from 0.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Checks that it belongs to this context, for a completion queue.
    pub(crate) fn check_is_of(&self, context: &Context) -> Result<(), Error> {
        let is_one = std::ptr::eq(self.context.as_ptr(), Arc::as_ptr(&context.handle));
        let what = "the completion vector and the completion queue";
        Error::unless_one_context("ibv_create_cq", what, is_one)
    }
}

impl_debug!(CompVector, |it| "CompVector({})", it.index);

impl Context {
    /// Returns the completion vectors (`num_comp_vectors` of ibv_create_cq(3)); see [`CompVector`].
    #[doc(alias = "num_comp_vectors")]
    pub fn comp_vectors(&self) -> Vec<CompVector> {
        // SAFETY: its handle keeps the context open, and the number does not change once it is
        // open.
        let count = unsafe { (*self.handle.as_ptr()).num_comp_vectors };
        let context = Arc::downgrade(&self.handle);
        (0..count.max(0) as u32)
            .map(|index| CompVector { context: context.clone(), index })
            .collect()
    }
}
