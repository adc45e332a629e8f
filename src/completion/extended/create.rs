//! How they are made.

use std::marker::PhantomData;

use super::adapter::Extended;
use super::{CompletionQueueEx, WcFields};
use crate::completion::channel::CompletionChannel;
use crate::completion::create::Fields;
use crate::completion::queue::CompletionQueue;
use crate::device::comp_vector::CompVector;
use crate::device::context::Context;
use crate::memory::entry::Owned;
use crate::sys::polling::wc_flags;
use crate::terms::error::Error;
use crate::terms::threads::Threads;

impl<F: WcFields, E: Owned, L: Threads> CompletionQueueEx<F, E, L> {
    pub(in crate::completion) fn create(
        context: &Context,
        cqe: u32,
        channel: Option<&CompletionChannel>,
        vector: Option<&CompVector>,
    ) -> Result<Self, Error> {
        let wc_flags = wc_flags::OURS | F::WC_FLAGS;
        let fields = Fields { wc_flags, adapter: Extended::new::<F> };
        let queue = CompletionQueue::create(context, cqe, channel, vector, Some(fields))?;
        Ok(CompletionQueueEx { queue, _fields: PhantomData })
    }
}
