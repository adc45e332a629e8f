//! Posting to a shared receive queue: the bounds. The path is the same for all queues (`post`).

#![allow(unsafe_code)] // the bounds satisfy the contract of posting

use crate::memory::{Entry, Owned};
use crate::post::chain::{Begun, Post, SrqPost};
use crate::post::refusal::PostError;
use crate::rules::{SharesReceives, SrqRecvOn};
use crate::srq::SharedReceiveQueue;
use crate::terms::threads::Threads;
use crate::work::limits::Limit;

impl<T: SharesReceives, E: Owned, M: Limit, L: Threads> SharedReceiveQueue<T, E, M, L> {
    /// Posts one receive work request (`ibv_post_srq_recv`). Its buffers must be from the queue's
    /// pool. The device owns them until the completion. If the post fails, the error contains them.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::post::PostErrorKind;
    /// # let proverbs::loopback::Pair { pd, pool, .. } = proverbs::loopback::pair()?;
    /// let mut srq: SharedReceiveQueue<Ud> = pd.create_srq(&pool)?;
    /// srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    ///
    /// let foreign = pd.create_pool(1, 256)?.take().ok_or("no buffer")?;
    /// let error = srq.post_srq_recv(wr::Recv::new(foreign)).unwrap_err();
    /// assert_eq!(error.kind(), PostErrorKind::ForeignPool);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError`] with the buffers: [`ForeignPool`](crate::post::PostErrorKind::ForeignPool),
    /// [`NoBuffer`](crate::post::PostErrorKind::NoBuffer),
    /// [`TooManySge`](crate::post::PostErrorKind::TooManySge) ([R3.1](crate::guide::rules#r3-1)),
    /// [`Refused`](crate::post::PostErrorKind::Refused) by the device
    /// ([R9.1](crate::guide::rules#r9-1)),
    /// [`OutcomeUnknown`](crate::post::PostErrorKind::OutcomeUnknown) and, for later posts,
    /// [`Poisoned`](crate::post::PostErrorKind::Poisoned) ([R8.20](crate::guide::rules#r8-20)).
    #[doc(alias = "ibv_post_srq_recv")]
    #[inline(always)]
    pub fn post_srq_recv<W>(&mut self, wr: W) -> Result<(), PostError<E>>
    where
        W: SrqRecvOn<E, M>,
    {
        // SAFETY: the bounds are the rules.
        unsafe { SrqPost::<T, E, M>::new(&mut self.queue).one(wr) }
    }
}

impl<T: SharesReceives, E: Entry, M: Limit, L: Threads> SharedReceiveQueue<T, E, M, L> {
    #[doc(hidden)]
    #[inline(always)]
    pub fn begin_srq(&mut self) -> Begun<SrqPost<'_, T, E, M>> {
        Begun(Post::new(&mut self.queue))
    }
}
