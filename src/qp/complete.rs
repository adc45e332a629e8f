//! Completions of a selectively signaled send queue.

use super::{Completed, QueuePair};
use crate::completion::{Completion, DetachedCompletion};
use crate::profile::{Profile, Selective};
use crate::terms::state::State;
use crate::terms::transport::Transport;

impl<T: Transport, S: State, P: Profile<Signaling = Selective>> QueuePair<T, S, P> {
    /// Consumes a completion of this queue pair's send queue, and releases the entries of its work
    /// request and of all earlier ones ([R10.7](crate::guide::rules#r10-7)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{post::Unsettled, qp::{Completed, Released}};
    /// profile! { Stream { signaling: Selective } }
    ///
    /// # let proverbs::loopback::Pair { a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Stream>()?;
    /// # let region = pd.register::<RemoteWrite>(256)?;
    /// # let at = region.remote().write();
    /// let mut qp: QueuePair<Rc, Rts, Stream> = a;
    /// let _: Unsettled = qp.post_send_unsignaled(wr::RdmaWrite::new(pool.take().ok_or("no buffer")?, at))?;
    /// qp.post_send(wr::RdmaWrite::new(pool.take().ok_or("no buffer")?, at))?; // signaled
    ///
    /// let mut returned = Vec::new();
    /// while returned.is_empty() {
    ///     for completion in cq.poll()? {
    ///         let done: Completed<'_, Buf> = qp.complete(completion).map_err(|_| "of another queue pair")?;
    ///         done.status?;
    ///         let released: Released<'_, Buf> = done.released;
    ///         returned.extend(released);
    ///     }
    /// }
    /// assert_eq!(returned.len(), 2); // the second completion covers both
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    /// Until you take them out, the released entries stay in the queue pair and borrow it. To call
    /// the queue pair in the same match arm, or a `&mut self` method of the struct that owns it,
    /// destructure the result and consume the entries first. A variable for the whole result
    /// borrows the queue pair until the end of its scope (E0499), so destructure the call itself:
    ///
    /// ```
    /// # use proverbs::{completion::WcError, prelude::*, qp::Completed};
    /// # profile! { Stream { signaling: Selective } }
    /// struct Peer {
    ///     qp: QueuePair<Rc, Rts, Stream>,
    ///     written: usize,
    /// }
    ///
    /// impl Peer {
    ///     fn on_completion(&mut self, completion: Completion<'_, Buf>) {
    ///         let Ok(Completed { status, released }) = self.qp.complete(completion) else { return };
    ///         self.written += released.count(); // consumes the entries
    ///         if let Err(error) = status {
    ///             self.end(error);
    ///         }
    ///     }
    ///
    ///     fn end(&mut self, error: WcError) {
    ///         println!("{error} after {} work requests", self.written);
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// The completion, if it does not belong to this queue pair's send queue, or is older than a
    /// reset. Try the next queue pair.
    #[inline(always)]
    pub fn complete<'cq>(
        &mut self,
        completion: Completion<'cq, P::Entry>,
    ) -> Result<Completed<'_, P::Entry>, Completion<'cq, P::Entry>> {
        let Some(count) = self.core.send.in_flight.done_with(completion.wr_id()) else {
            return Err(completion);
        };
        let released = self.core.send.in_flight.release_first(count);
        if P::COUNTED {
            released.note_done();
        }
        let status = completion.status();
        // A completion of a ring owns no buffer.
        std::mem::forget(completion);
        Ok(Completed { status, released })
    }

    /// Like [`complete`](Self::complete), for a completion that another thread polled and
    /// [detached](Completion::detach). [`DetachedCompletion`] has an example.
    ///
    /// If a later completion of the queue pair was redeemed first, this call releases nothing,
    /// because the later completion has released these entries too. The status is still valid.
    ///
    /// # Errors
    /// The completion, if it does not belong to this queue pair's send queue, or is older than a
    /// reset.
    pub fn redeem(
        &mut self,
        completion: DetachedCompletion,
    ) -> Result<Completed<'_, P::Entry>, DetachedCompletion> {
        let Some(number) = completion.number_at(&self.core.counters) else {
            return Err(completion);
        };
        let released = self.core.send.in_flight.release_by(number);
        if P::COUNTED {
            released.note_done();
        }
        Ok(Completed { status: completion.status(), released })
    }
}
