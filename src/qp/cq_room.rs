//! Waiting for room in a completion queue with a shared budget.

use std::future::{Future, poll_fn};
use std::sync::Arc;

use super::QueuePair;
use crate::completion::booking::CqShared;
use crate::counters::budget::{Budget, Room};
use crate::counters::queue_counters::{RECEIVE, SEND};
use crate::profile::Profile;
use crate::terms::error::{Error, ErrorKind};
use crate::terms::state::State;
use crate::terms::transport::Transport;

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Waits until the completion queue of its sends has `n` free entries, after a post failed with
    /// [`CqFull`](crate::post::PostErrorKind::CqFull). The poll that frees entries wakes the task,
    /// on any executor. It returns at once if the completion queue does not
    /// [share](crate::completion::CqBuilder::shared_budget) its entries.
    ///
    /// The entries are not reserved: another queue pair may take them first, so post in a loop. It
    /// waits **forever** if the queue is not polled. Destroying a queue pair frees its entries at
    /// the next poll, but does not wake a poller that sleeps until a completion: wake it
    /// ([`wait_or_woken`](crate::completion::CompletionChannel::wait_or_woken)). Safe to cancel at
    /// any point.
    ///
    /// ```
    /// # use std::{pin::pin, task::{Context, Poll, Waker}};
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// let mut cq: CompletionQueue = context.cq(1).shared_budget().create()?;
    /// let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    /// let depth = Depth { send: 8, recv: 8 };
    /// let mut qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?.modify(init)?;
    /// for _ in 0..cq.capacity() {
    ///     qp.post_recv(wr::Recv::empty())?;
    /// }
    /// let mut room = pin!(qp.recv_cq_room(1));
    /// let mut task = Context::from_waker(Waker::noop());
    /// assert!(room.as_mut().poll(&mut task).is_pending());
    /// let _qp = qp.to_error()?; // flushes the receives
    /// cq.poll()?;
    /// assert!(matches!(room.as_mut().poll(&mut task), Poll::Ready(Ok(()))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if `n` exceeds the capacity, [`ErrorKind::CqGone`] if the completion
    /// queue was dropped or is in error.
    pub fn send_cq_room(
        &self,
        n: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<T, S, P> {
        let claims = self.core.counters.claims(SEND);
        wait(&self.core.send_cq, claims.map(|claims| claims.budget()), n)
    }

    /// Like [`send_cq_room`](Self::send_cq_room), for the completion queue of its receives. Wake a
    /// sleeping poller after you destroy a queue pair, as described there.
    ///
    /// # Errors
    /// As for [`send_cq_room`](Self::send_cq_room).
    pub fn recv_cq_room(
        &self,
        n: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<T, S, P> {
        let claims = self.core.counters.claims(RECEIVE);
        wait(&self.core.recv_cq, claims.map(|claims| claims.budget()), n)
    }
}

fn wait(
    cq: &Arc<CqShared>,
    budget: Option<&Arc<Budget>>,
    n: u32,
) -> impl Future<Output = Result<(), Error>> + Send + use<> {
    const VERB: &str = "ibv_poll_cq";
    let (capacity, budget) = (cq.capacity(), budget.cloned());
    async move {
        let Some(budget) = budget else { return Ok(()) };
        Error::at_most(VERB, "entries", n, capacity)?;
        match poll_fn(|task| budget.poll_room(task, n)).await {
            Room::Free => Ok(()),
            Room::Gone => Err(Error::new(VERB, ErrorKind::CqGone)),
        }
    }
}
