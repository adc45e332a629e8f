//! Fewer events for many completions: `ibv_modify_cq`.

#![allow(unsafe_code)] // one verb

use std::num::NonZeroU16;

use crate::completion::CompletionQueue;
use crate::device::{Can, Context, CqModeration};
use crate::memory::Entry;
use crate::sys::tuning::{MODERATE, ibv_moderate_cq, ibv_modify_cq_attr};
use crate::terms::error::Error;
use crate::terms::threads::Threads;

/// When an armed completion queue raises its event (`moderate` of ibv_modify_cq(3)): after a number
/// of completions, or a period after the first of them. Neither can be 0. With only one of them,
/// the event of a last completion would never be raised ([R22.1](crate::guide::rules#r22-1)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{device::{Can, CqModeration}, ext::tuning::Moderation};
/// # let proverbs::loopback::Pair { context, mut cq, .. } = proverbs::loopback::pair()?;
/// let can: Can<CqModeration> = context.abilities()?.can().ok_or("an event for each completion")?;
/// let moderation = Moderation::new(16, 50).ok_or("neither is 0")?; // 16 completions, or 50 µs
/// cq.moderate(&can, Some(moderation))?;
/// assert_eq!((moderation.cq_count(), moderation.cq_period()), (16, 50));
/// assert_eq!((Moderation::new(16, 0), Moderation::new(0, 50)), (None, None));
/// cq.moderate(&can, None)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_CQ_ATTR_MODERATE", "ibv_cq_attr_mask", "ibv_modify_cq_attr", "ibv_moderate_cq"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Moderation {
    cq_count: NonZeroU16,
    cq_period: NonZeroU16,
}

impl Moderation {
    /// An event after `cq_count` completions or `cq_period` microseconds; `None` if one of them is
    /// 0.
    pub fn new(cq_count: u16, cq_period: u16) -> Option<Moderation> {
        let cq_count = NonZeroU16::new(cq_count)?;
        NonZeroU16::new(cq_period).map(|cq_period| Moderation { cq_count, cq_period })
    }

    /// The maximum number of completions per event.
    pub fn cq_count(&self) -> u16 {
        self.cq_count.get()
    }

    /// The maximum time from a completion to its event, in microseconds.
    pub fn cq_period(&self) -> u16 {
        self.cq_period.get()
    }
}

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    /// Sets event moderation for this queue (`ibv_modify_cq` with `IBV_CQ_ATTR_MODERATE`); `None`
    /// turns it off. It changes when a [channel](crate::CompletionChannel) wakes up. It does not
    /// change the results of [`poll`](Self::poll). A device may raise events sooner. [`Moderation`]
    /// has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// - [`ContextMismatch`](crate::ErrorKind::ContextMismatch): the proof belongs to another
    ///   context.
    /// - [`Limit`](crate::ErrorKind::Limit): a value exceeds the device's `max_cq_count` or
    ///   `max_cq_period`.
    /// - [`Os`](crate::ErrorKind::Os) with the errno otherwise.
    #[doc(alias = "ibv_modify_cq")]
    pub fn moderate(
        &mut self,
        can: &Can<CqModeration>,
        moderation: Option<Moderation>,
    ) -> Result<(), Error> {
        const VERB: &str = "ibv_modify_cq";
        let handle = self.shared().handle();
        let context = Context { handle: handle.parents().context.clone() };
        can.check_is_of(&context, VERB, "the proof of moderation and the completion queue")?;
        let moderate = moderation.map_or_else(ibv_moderate_cq::default, |to| ibv_moderate_cq {
            cq_count: to.cq_count(),
            cq_period: to.cq_period(),
        });
        let most = context.query_device_ex()?;
        for (what, asked, max) in [
            ("cq_count", moderate.cq_count, most.max_cq_count),
            ("cq_period", moderate.cq_period, most.max_cq_period),
        ] {
            Error::at_most(VERB, what, asked, max)?;
        }
        let mut attr = ibv_modify_cq_attr { attr_mask: MODERATE, moderate };
        // SAFETY: its handle keeps the queue.
        unsafe { (handle.control().modify_cq)(handle.as_ptr(), &mut attr) }
            .map_err(|errno| Error::os(VERB, errno, format!("{moderation:?}")))
    }
}
