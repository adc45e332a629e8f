//! Connected endpoints.

use std::time::{Duration, Instant};

use super::{Ep, EpState};
use crate::cm::param::{AcceptParam, ConnParam};
use crate::cm::space::Tcp;
use crate::cm::state::{Disconnected, Established, Mode, Requested, RouteResolved, Unusable};
use crate::cm::waits::finish;
use crate::completion::outcome::Outcome;
use crate::completion::queue::CompletionQueue;
use crate::memory::entry::Owned;
use crate::profile::Profile;
use crate::qp::{Drained, QueuePair};
use crate::terms::error::{Error, Refused};
use crate::terms::state::Err;
use crate::terms::transport::Rc;

impl<P: Profile> Ep<Tcp, RouteResolved, P> {
    /// Connects the endpoint, within `timeout` (`rdma_connect`).
    ///
    /// # Errors
    /// As for [`CmId::connect`](crate::cm::CmId::connect). The error contains the endpoint:
    /// [drain](Self::drain) it.
    pub fn connect(
        self,
        param: &ConnParam<P>,
        timeout: Duration,
    ) -> Result<Ep<Tcp, Established, P>, Refused<Ep<Tcp, Unusable, P>>> {
        finish(self.begin(param)?, timeout)
    }
}

impl<P: Profile> Ep<Tcp, Requested, P> {
    /// Accepts the connection, and waits for the peer's confirmation, at most `timeout`
    /// (`rdma_accept`).
    ///
    /// # Errors
    /// As for [`Request::accept`](crate::cm::Request::accept). The error contains the endpoint:
    /// [drain](Self::drain) it. Its id can only be dropped, which notifies the peer.
    pub fn accept(
        self,
        param: &AcceptParam<P>,
        timeout: Duration,
    ) -> Result<Ep<Tcp, Established, P>, Refused<Ep<Tcp, Unusable, P>>> {
        finish(self.begin(param)?, timeout)
    }
}

impl<P: Profile, M: Mode> Ep<Tcp, Established, P, M> {
    /// Disconnects, or confirms that the peer disconnected (`rdma_disconnect`). Posted work
    /// requests are flushed.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_disconnect`. The error contains the
    /// endpoint, unchanged.
    pub fn disconnect(self) -> Result<Ep<Tcp, Disconnected, P, M>, Refused<Self>> {
        let (qp, id, rest) = self.apart();
        match id.disconnect() {
            Ok(id) => Ok(rest.with(qp.give_up(), id)),
            Err(refused) => Err(refused.map(|id| rest.with(qp, id))),
        }
    }
}

impl<S, P, M> Ep<Tcp, S, P, M>
where
    M: Mode,
    S: EpState<Tcp, Qp = Err>,
    P: Profile,
    P::Entry: Owned,
{
    /// Waits until all posted work requests are flushed, at most 10 seconds for each queue. Passes
    /// their entries, with their contexts, to `found` ([R16.20](crate::guide::rules#r16-20)).
    ///
    /// # Errors
    /// As for [`QueuePair::drain`](crate::QueuePair::drain).
    pub fn drain(&mut self, mut found: impl FnMut(P::Entry)) -> Result<(), Error> {
        self.drain_sides(|qp, cq| qp.drain(cq, |drained| own(drained, &mut found)))
    }

    /// Like [`drain`](Self::drain), for at most `timeout`.
    ///
    /// # Errors
    /// As for [`QueuePair::drain`](crate::QueuePair::drain).
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # fn example(mut ep: Ep<Tcp, Disconnected>) -> Result<(), proverbs::Error> {
    /// ep.drain_within(std::time::Duration::from_secs(1), |_buf| println!("back"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn drain_within(
        &mut self,
        timeout: Duration,
        mut found: impl FnMut(P::Entry),
    ) -> Result<(), Error> {
        let end = Instant::now().checked_add(timeout);
        self.drain_sides(|qp, cq| {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.unwrap_or(Duration::MAX);
            qp.drain_within(cq, left, |drained| own(drained, &mut found))
        })
    }

    fn drain_sides(
        &mut self,
        mut drain: impl FnMut(
            &mut QueuePair<Rc, Err, P>,
            &mut CompletionQueue<P::Entry, P::Threads>,
        ) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // If draining the first queue times out, the second is drained nevertheless.
        let sends = drain(&mut self.qp, &mut self.send.cq);
        drain(&mut self.qp, &mut self.recv.cq).and(sends)
    }
}

fn own<E: Owned>(drained: Drained<'_, E>, found: &mut impl FnMut(E)) {
    match drained {
        Drained::Entry(entry) => found(entry),
        // Only the endpoint's queue pair completes into its queues. Receives that its messages took
        // from a shared receive queue belong to that queue.
        Drained::Other(completion) => {
            let entry = match completion.outcome() {
                Outcome::Sent(sent) => sent.entry,
                Outcome::Received(got) => got.entry,
                Outcome::Failed(failed) => failed.entry,
                _ => None,
            };
            entry.into_iter().for_each(found);
        }
    }
}
