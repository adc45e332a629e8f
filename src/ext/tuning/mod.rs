//! Event moderation, rate limits and connection options: `ibv_modify_cq`,
//! `ibv_modify_qp_rate_limit`, `ibv_set_ece`. [`Moderation`], [`RateLimit`] and [`Ece`] have
//! examples.
//!
//! The design is in [docs/tuning.md](https://docs.rs/crate/proverbs/latest/source/docs/tuning.md).

#![allow(unsafe_code)] // four verbs

pub use crate::sys::attr::qp::{Ece, RateLimit};

use std::num::NonZeroU16;

use crate::allows::{Allows, call};
use crate::completion::CompletionQueue;
use crate::device::{Can, Context, CqModeration, PacketPacing};
use crate::memory::Entry;
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::sys::tuning::{
    MODERATE, ibv_ece, ibv_moderate_cq, ibv_modify_cq_attr, ibv_qp_rate_limit_attr,
};
use crate::terms::error::Error;
use crate::terms::state::{Init, Reset, Rts, State};
use crate::terms::threads::Threads;
use crate::terms::transport::Transport;

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Returns the connection options that the device offers, or has accepted (`ibv_query_ece`).
    /// [`Ece`] has an example.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno: EOPNOTSUPP if the device does not support
    /// options, ENOSYS if the library is older than rdma-core 31.
    #[doc(alias = "ibv_query_ece")]
    pub fn query_ece(&self) -> Result<Ece, Error> {
        // SAFETY: its handle keeps the queue pair.
        let c = unsafe { (self.core.handle.control().query_ece)(self.core.qp()) };
        let c = c.map_err(|errno| Error::os("ibv_query_ece", errno, ""))?;
        Ok(Ece { vendor_id: c.vendor_id, options: c.options })
    }

    /// Sets the connection options that the peer offers, or has accepted (`ibv_set_ece`), before
    /// RTR ([R22.3](crate::guide::rules#r22-3)). The device accepts the options that it supports,
    /// and [`query_ece`](Self::query_ece) then returns those. [`Ece`] has an example.
    ///
    /// # Errors
    /// As for [`query_ece`](Self::query_ece), and EINVAL if the options are from another vendor.
    /// The queue pair can still connect, without options.
    #[doc(alias = "ibv_set_ece")]
    pub fn set_ece(&mut self, ece: Ece) -> Result<(), Error>
    where
        Self: Allows<call::SetEce>,
    {
        let Ece { vendor_id, options } = ece;
        let mut c = ibv_ece { vendor_id, options, comp_mask: 0 };
        // SAFETY: its handle keeps the queue pair.
        let set = unsafe { (self.core.handle.control().set_ece)(self.core.qp(), &mut c) };
        let asked = || format!("vendor {vendor_id:#x}, options {options:#x}");
        set.map_err(|errno| Error::os("ibv_set_ece", errno, asked()))
    }

    /// Limits the send rate of the queue pair (`ibv_modify_qp_rate_limit`); `None` removes the
    /// limit. A transition out of RTS may remove it too. [`RateLimit`] has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// - [`ContextMismatch`](crate::ErrorKind::ContextMismatch): the ability belongs to another
    ///   context.
    /// - [`Limit`](crate::ErrorKind::Limit): the rate exceeds the device's `qp_rate_limit_max`.
    /// - [`Os`](crate::ErrorKind::Os) with the errno otherwise: EINVAL if the rate is below
    ///   `qp_rate_limit_min` ([R22.2](crate::guide::rules#r22-2)), or the device does not support
    ///   bursts.
    #[doc(alias = "ibv_modify_qp_rate_limit")]
    pub fn limit_rate(
        &mut self,
        can: &Can<PacketPacing<T>>,
        limit: Option<RateLimit>,
    ) -> Result<(), Error>
    where
        Self: Allows<call::LimitRate>,
    {
        const VERB: &str = "ibv_modify_qp_rate_limit";
        let context = self.context();
        can.check_is_of(&context, VERB, "the ability for packet pacing and the queue pair")?;
        let mut c = ibv_qp_rate_limit_attr::default();
        if let Some(RateLimit { rate_limit, max_burst_sz, typical_pkt_sz }) = limit {
            let device = context.query_device_ex()?;
            let (min, max) = (device.qp_rate_limit_min, device.qp_rate_limit_max);
            Error::at_most(VERB, "rate_limit", rate_limit, max)?;
            if rate_limit < min.max(1) {
                let asked = format!("{rate_limit} kbit/s, the minimum is {}", min.max(1));
                return Err(Error::os(VERB, libc::EINVAL, asked));
            }
            c = ibv_qp_rate_limit_attr { rate_limit, max_burst_sz, typical_pkt_sz, comp_mask: 0 };
        }
        // SAFETY: its handle keeps the queue pair.
        unsafe { (self.core.handle.control().modify_qp_rate_limit)(self.core.qp(), &mut c) }
            .map_err(|errno| Error::os(VERB, errno, format!("{limit:?}")))
    }
}

/// States in which options of the connection can be set: those before RTR
/// ([R22.3](crate::guide::rules#r22-3)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "options of a connection cannot be set in QP state `{Self}`",
    label = "the queue pair is in state `{Self}`",
    note = "set them in RESET or INIT: the device uses them in the transition to RTR"
)]
pub trait TakesEce: State {}

impl TakesEce for Reset {}
impl TakesEce for Init {}

/// States in which a queue pair has a rate: RTS ([R22.2](crate::guide::rules#r22-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue pair in state `{Self}` has no rate",
    label = "the queue pair is in state `{Self}`",
    note = "limit it in RTS, after `modify`"
)]
pub trait HasRate: State {}

impl HasRate for Rts {}

allows! {
    [T: Transport, S: TakesEce, P: Profile] QueuePair<T, S, P>: SetEce;
    [T: Transport, S: HasRate, P: Profile] QueuePair<T, S, P>: LimitRate;
}

/// When an armed completion queue raises its event (`moderate` of ibv_modify_cq(3)): after a number
/// of completions, or a period after the first of them. Neither can be 0, because with only one of
/// these limits the event for the last completions would never be raised
/// ([R22.1](crate::guide::rules#r22-1)).
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
    /// One event after `cq_count` completions or `cq_period` microseconds; `None` if one of these
    /// numbers is 0.
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
    /// - [`ContextMismatch`](crate::ErrorKind::ContextMismatch): the ability belongs to another
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
        can.check_is_of(&context, VERB, "the ability for moderation and the completion queue")?;
        let moderate = moderation.map_or_else(ibv_moderate_cq::default, |to| ibv_moderate_cq {
            cq_count: to.cq_count(),
            cq_period: to.cq_period(),
        });
        let most = context.query_device_ex()?;
        Error::at_most(VERB, "cq_count", moderate.cq_count, most.max_cq_count)?;
        Error::at_most(VERB, "cq_period", moderate.cq_period, most.max_cq_period)?;
        let mut attr = ibv_modify_cq_attr { attr_mask: MODERATE, moderate };
        // SAFETY: its handle keeps the queue.
        unsafe { (handle.control().modify_cq)(handle.as_ptr(), &mut attr) }
            .map_err(|errno| Error::os(VERB, errno, format!("{moderation:?}")))
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
