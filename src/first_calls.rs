//! The calls with which a program begins, in the order of use.
//!
//! rustdoc shows methods in the order of the modules that define them, and this module is the
//! first. So the page of [`Context`] begins with them. They return what several rooms define.

use crate::completion::builder::{self, CqBuilder};
use crate::completion::channel::CompletionChannel;
use crate::completion::queue::CompletionQueue;
use crate::device::context::{self, Context};
use crate::device::pd::ProtectionDomain;
use crate::memory::entry::Entry;
use crate::terms::error::Error;

impl Context {
    /// Opens the device called `name` (`ibv_open_device`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// let error = Context::open("nonesuch").unwrap_err();
    /// // The device does not exist, or no device does.
    /// assert!(matches!(error.kind(), ErrorKind::NotFound(_) | ErrorKind::Absent(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the names of the devices that
    /// exist, [`ErrorKind::Absent`](crate::ErrorKind::Absent) with the reason why this process
    /// cannot use the device, or [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias = "ibv_open_device")]
    pub fn open(name: &str) -> Result<Context, Error> {
        context::open(name)
    }

    /// Allocates a protection domain (`ibv_alloc_pd`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias = "ibv_alloc_pd")]
    pub fn alloc_pd(&self) -> Result<ProtectionDomain, Error> {
        ProtectionDomain::new(self)
    }

    /// Creates a completion queue with room for at least `cqe` completions, of queues whose entry
    /// type is `E` (`ibv_create_cq`). [`cq`](Self::cq) has options, and computes `cqe` from the
    /// depths of queue pairs.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// // Two queue pairs of depth 8 each way, and room for a drain of each.
    /// let cq: CompletionQueue = context.create_cq(2 * (8 + 1 + 8))?;
    /// assert!(cq.capacity() >= 34);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`CqBuilder::create`].
    #[doc(alias = "ibv_create_cq")]
    pub fn create_cq<E: Entry>(&self, cqe: u32) -> Result<CompletionQueue<E>, Error> {
        CompletionQueue::create(self, cqe, None, None, None)
    }

    /// A completion queue with room for at least `cqe` completions, to be created with the options
    /// of [`CqBuilder`]. `cqe` may be 0 if queues are added.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let channel = context.create_comp_channel()?;
    /// let cq: CompletionQueue = context.cq(64).channel(&channel).create()?;
    /// assert!(cq.capacity() >= 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cq(&self, cqe: u32) -> CqBuilder<'static> {
        builder::sized(self.clone(), cqe)
    }

    /// Creates a completion channel (`ibv_create_comp_channel`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`Absent`](crate::ErrorKind::Absent) if the process has no descriptor left;
    /// [`Os`](crate::ErrorKind::Os) with any other errno.
    #[doc(alias = "ibv_create_comp_channel")]
    pub fn create_comp_channel(&self) -> Result<CompletionChannel, Error> {
        CompletionChannel::new(self)
    }
}
