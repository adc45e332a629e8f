//! XRC shared receive queues, with their own completion queue and number.

#![allow(unsafe_code)] // two verbs

use std::sync::Arc;

use super::XrcDomain;
use crate::allows::{Allows, call};
use crate::completion::CqHandle;
use crate::completion::attachments::Share;
use crate::device::ProtectionDomain;
use crate::memory::{Entry, Owned, Raw};
use crate::srq::SharedReceiveQueue;
use crate::srq::create::{Feed, FeedsSrq, Made, refused};
use crate::sys::handle;
use crate::sys::xrc::ibv_srq_init_attr_ex;
use crate::terms::bounded::SrqNum;
use crate::terms::error::Error;
use crate::terms::threads::Threads;
use crate::terms::transport::Xrc;
use crate::work::limits::Limit;

const VERB: &str = "ibv_create_srq_ex";

impl XrcDomain {
    /// Creates a shared receive queue in this domain (`ibv_create_srq_ex` with `IBV_SRQT_XRC`) that
    /// can hold every buffer of `pool`. Initiators name it by its
    /// [number](SharedReceiveQueue::number). Their messages complete in `cq`, and the completions
    /// contain the number of the target as queue pair number.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// It reserves room for all its buffers on `cq`, once. WRITEs, READs and atomics that name this
    /// queue access memory of the protection domain `pd`.
    ///
    /// For other transports, use [`ProtectionDomain::create_srq`]: their receives complete in the
    /// completion queues of the queue pairs.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{bounded::SrqNum, ext::xrc::XrcdFile};
    /// # let proverbs::loopback::Pair { context, pd, pool, .. } = proverbs::loopback::pair()?;
    /// let can = context.abilities()?.can::<Xrc>().ok_or("the device has no XRC")?;
    /// let domain = context.open_xrcd(&can, XrcdFile::Private)?;
    /// let cq = context.create_cq(16)?;
    /// let mut srq: SharedReceiveQueue<Xrc> = domain.create_srq(&pd, &pool, &cq)?;
    /// srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// let number: SrqNum = srq.number(); // for the peers
    /// assert_eq!(cq.unbooked(), cq.capacity() - 16);
    /// # let _ = number;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`ProtectionDomain::create_srq`].
    /// [`ErrorKind::CqTooSmall`](crate::ErrorKind::CqTooSmall): the completion queue has too few
    /// entries left ([R9.9](crate::guide::rules#r9-9)).
    /// [`ErrorKind::ContextMismatch`](crate::ErrorKind::ContextMismatch): it or the XRC domain
    /// belongs to another context ([R12.1](crate::guide::rules#r12-1)).
    #[doc(alias("ibv_srq_init_attr_mask", "ibv_create_srq_ex", "IBV_SRQT_XRC"))]
    #[doc(alias("IBV_SRQ_INIT_ATTR_TYPE", "IBV_SRQ_INIT_ATTR_PD", "IBV_SRQ_INIT_ATTR_XRCD"))]
    #[doc(alias(
        "IBV_SRQ_INIT_ATTR_CQ",
        "ibv_srq_init_attr_ex",
        "srq_context",
        "srq_type",
        "xrcd"
    ))]
    pub fn create_srq<E, M, C, L>(
        &self,
        pd: &ProtectionDomain<L>,
        pool: &impl FeedsSrq<C>,
        cq: &CqHandle<E, L>,
    ) -> Result<SharedReceiveQueue<Xrc, E, M, L>, Error>
    where
        E: Owned + Allows<call::FeedFrom<C>>,
        M: Limit,
        C: 'static,
        L: Threads,
    {
        self.create_srq_of(pd, pool.feed(), cq)
    }

    /// Creates an XRC shared receive queue for the `unsafe` path, with room for `max_wr` receives
    /// (`ibv_create_srq_ex`), like [`ProtectionDomain::create_raw_srq`] for other transports.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{ext::xrc::XrcdFile, memory::Raw, qp::Max};
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// let can = context.abilities()?.can::<Xrc>().ok_or("the device has no XRC")?;
    /// let domain = context.open_xrcd(&can, XrcdFile::Private)?;
    /// let cq: CompletionQueue<Raw> = context.create_cq(16)?;
    /// let srq = domain.create_raw_srq::<Max<1>, _>(&pd, 16, &cq)?;
    /// assert_eq!(cq.unbooked(), cq.capacity() - 16);
    /// # drop(srq);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`XrcDomain::create_srq`].
    #[doc(alias = "ibv_create_srq_ex")]
    pub fn create_raw_srq<M: Limit, L: Threads>(
        &self,
        pd: &ProtectionDomain<L>,
        max_wr: u32,
        cq: &CqHandle<Raw, L>,
    ) -> Result<SharedReceiveQueue<Xrc, Raw, M, L>, Error> {
        let feed = Feed::counted_by_caller("ibv_create_srq_ex", pd.id(), max_wr)?;
        self.create_srq_of(pd, feed, cq)
    }

    fn create_srq_of<E: Entry, M: Limit, L: Threads>(
        &self,
        pd: &ProtectionDomain<L>,
        feed: Feed,
        cq: &CqHandle<E, L>,
    ) -> Result<SharedReceiveQueue<Xrc, E, M, L>, Error> {
        let here = &pd.handle().parents().context;
        let is_one = Arc::ptr_eq(self.handle().parents(), here);
        Error::unless_one_context(VERB, "the XRC domain and the protection domain", is_one)?;
        let shared = cq.queue(VERB)?;
        let is_one = Arc::ptr_eq(&shared.handle().parents().context, here);
        Error::unless_one_context(VERB, "the completion queue and the protection domain", is_one)?;
        pd.create_any_srq(VERB, feed, |counters, init| {
            let asked = init.attr;
            shared.attach(VERB, counters, [0, asked.max_wr], Share::Receives)?;
            let refused = |errno| refused(VERB, errno, asked);
            let (pd, cq) = (pd.handle(), shared.handle());
            let control = pd.control();
            let mut ex = ibv_srq_init_attr_ex::xrc(init, pd.as_ptr(), self.as_ptr(), cq.as_ptr());
            // SAFETY: the domains and the completion queue are alive, and belong to one context.
            let made = unsafe { (control.create_srq_ex)(&mut ex) };
            init.attr = ex.attr;
            let numbered = made.map_err(refused).and_then(|srq| {
                // SAFETY: the queue was just created, for XRC.
                let number = unsafe { (control.srq_num)(srq.as_ptr()) }.map_err(refused);
                number.and_then(|number| Ok((srq, SrqNum::try_from(number)?))).inspect_err(|_| {
                    // SAFETY: the queue is alive, and nothing else refers to it.
                    let _ = unsafe { (control.destroy_srq)(srq.as_ptr()) };
                })
            });
            let (srq, number) = numbered.inspect_err(|_| shared.detach(counters))?;
            let parents = handle::SrqParents {
                pd: pd.clone(),
                xrc: Some((self.handle().clone(), cq.clone())),
            };
            Ok(Made { srq, parents, completes_into: Some(shared.clone()), number })
        })
    }
}

impl<E: Entry, M: Limit, L: Threads> SharedReceiveQueue<Xrc, E, M, L> {
    /// The number by which initiators name it in [`to_srq`](crate::wr::WorkRequest::to_srq)
    /// (`ibv_get_srq_num`). Send it to the peers.
    #[doc(alias = "ibv_get_srq_num")]
    pub fn number(&self) -> SrqNum {
        self.core().number
    }
}
