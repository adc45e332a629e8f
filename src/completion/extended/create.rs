//! How they are made.

use std::marker::PhantomData;

use super::adapter::Extended;
use super::{CompletionQueueEx, WcFields};
use crate::completion::channel::CompletionChannel;
use crate::completion::create::Fields;
use crate::completion::queue::CompletionQueue;
use crate::device::comp_vector::CompVector;
use crate::device::context::Context;
use crate::device::lane::Lane;
use crate::memory::entry::Owned;
use crate::sys::polling::wc_flags;
use crate::terms::error::Error;
use crate::terms::threads::{InLane, Threads};

impl<F: WcFields, E: Owned, L: Threads> CompletionQueueEx<F, E, L> {
    fn new(
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

impl Context {
    /// Creates a completion queue with room for at least `cqe` completions, which have the fields
    /// `F` (`ibv_create_cq_ex`). [`CompletionQueueEx`] has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// As for [`create_cq`](Self::create_cq). [`ErrorKind::Os`](crate::ErrorKind::Os) with
    /// EOPNOTSUPP if device or library lack one of the fields, or extended polling
    /// ([R14.6](crate::guide::rules#r14-6)).
    #[doc(alias("ibv_create_cq_ex", "IBV_CREATE_CQ_ATTR_SINGLE_THREADED"))]
    #[doc(alias("IBV_CQ_INIT_ATTR_MASK_FLAGS", "ibv_cq_init_attr_ex", "cqe", "cq_context"))]
    #[doc(alias("comp_vector", "ibv_cq_init_attr_mask", "ibv_create_cq_attr_flags", "wc_flags"))]
    pub fn create_cq_ex<F: WcFields, E: Owned>(
        &self,
        cqe: u32,
    ) -> Result<CompletionQueueEx<F, E>, Error> {
        CompletionQueueEx::new(self, cqe, None, None)
    }

    /// Like [`create_cq_ex`](Self::create_cq_ex), with events delivered to `channel`
    /// ([R13.7](crate::guide::rules#r13-7)). A wait of the channel returns the completions alone;
    /// drop what it returns, and the next poll has them with their fields.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::completion::{CompletionQueueEx, CompletionWallclock};
    /// use std::time::Duration;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let mut channel = context.create_comp_channel()?;
    /// let mut cq: CompletionQueueEx<CompletionWallclock> = context.create_cq_ex_on(64, &channel)?;
    /// channel.wait_timeout(&mut cq, Duration::from_millis(1))?;
    /// for (completion, fields) in cq.poll()? {
    ///     println!("{completion:?} at {:?}", fields.completion_wallclock_ns());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`create_cq_ex`](Self::create_cq_ex) and [`create_cq_on`](Self::create_cq_on).
    pub fn create_cq_ex_on<F: WcFields, E: Owned>(
        &self,
        cqe: u32,
        channel: &CompletionChannel,
    ) -> Result<CompletionQueueEx<F, E>, Error> {
        CompletionQueueEx::new(self, cqe, Some(channel), None)
    }

    /// Like [`create_cq_ex_on`](Self::create_cq_ex_on), with the events on `vector`.
    ///
    /// # Errors
    /// As for [`create_cq_ex_on`](Self::create_cq_ex_on), also for a vector of another context.
    pub fn create_cq_ex_on_vector<F: WcFields, E: Owned>(
        &self,
        cqe: u32,
        channel: &CompletionChannel,
        vector: &CompVector,
    ) -> Result<CompletionQueueEx<F, E>, Error> {
        CompletionQueueEx::new(self, cqe, Some(channel), Some(vector))
    }
}

impl Lane {
    /// Creates a completion queue of this lane, whose completions have the fields `F`:
    /// [`Context::create_cq_ex`], and single-threaded, if the device has that
    /// ([R17.2](crate::guide::rules#r17-2)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::completion::{CompletionQueueEx, CompletionTs};
    /// use proverbs::qp::InLane;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let lane = pd.alloc_lane()?;
    /// let cq: CompletionQueueEx<CompletionTs, Buf, InLane> = lane.create_cq_ex(64)?;
    /// assert!(cq.is_single_threaded());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Context::create_cq_ex`].
    pub fn create_cq_ex<F: WcFields, E: Owned>(
        &self,
        cqe: u32,
    ) -> Result<CompletionQueueEx<F, E, InLane>, Error> {
        CompletionQueueEx::new(&self.context(), cqe, None, None)
    }

    /// Like [`create_cq_ex`](Self::create_cq_ex), with events delivered to `channel`, as for
    /// [`Context::create_cq_ex_on`].
    ///
    /// # Errors
    /// As for [`Context::create_cq_ex_on`].
    pub fn create_cq_ex_on<F: WcFields, E: Owned>(
        &self,
        cqe: u32,
        channel: &CompletionChannel,
    ) -> Result<CompletionQueueEx<F, E, InLane>, Error> {
        CompletionQueueEx::new(&self.context(), cqe, Some(channel), None)
    }
}
