//! The properties of every program.

use std::time::{Duration, Instant};

use proverbs::bounded::RnrRetry;
use proverbs::completion::Direction;
use proverbs::device::{CqId, SrqId};
use proverbs::memory::{Entry, Owned};
use proverbs::post::{PostErrorKind, Rejected};
use proverbs::prelude::*;
use proverbs::qp::Drained;
use proverbs::state::{QpState, State};
use proverbs::transport::Transport;

use crate::world::{BUFFERS, DEPTH, World, lock};

/// The entries that a queue pair books on its completion queues.
const BOOKED: u32 = DEPTH.send + 1 + DEPTH.recv;
/// Empty polls before nothing more is expected: delayed messages arrive within some.
const EMPTY: u32 = 8;
/// The same in a short program without delays.
const EMPTY_AND_CALM: u32 = 2;
/// The same while a device waits for a peer that is gone: its retry timer takes 100.
const RETRIES: u32 = if cfg!(miri) { 120 } else { 300 };
/// How much longer than its time limit a call may take, on a busy machine.
const SLACK: Duration = Duration::from_secs(4);
/// The longest time for a drain that must wait.
const DRAIN: Duration = Duration::from_secs(8);

/// Buffers and room.
impl World {
    /// Checks that every buffer is in its pool.
    pub fn home(&self, when: &str) {
        if self.has_forgotten() {
            return;
        }
        let here = |here: usize, all: usize| {
            if here != all {
                self.complain(format!("{here} of {all} buffers are free {when}"));
            }
        };
        lock(&self.pools).iter().for_each(|pool| here(pool.available(), pool.count()));
        lock(&self.loud_pools).iter().for_each(|pool| here(pool.available(), pool.count()));
        lock(&self.arenas).iter().for_each(|arena| self.is_whole(arena, when, here));
        lock(&self.loud_arenas).iter().for_each(|arena| self.is_whole(arena, when, here));
    }

    /// Checks that all of an arena is free, as one block.
    fn is_whole<C>(&self, arena: &Arena<C>, when: &str, here: impl Fn(usize, usize)) {
        here(arena.spare(), arena.count());
        if arena.longest() != arena.len() {
            self.complain(format!("{} bytes of an arena are not one block {when}", arena.len()));
        }
    }

    /// Like `home`, while completion queues live that were polled until empty.
    pub fn home_meanwhile(&self) {
        if !self.is_broken() {
            self.home("while the completion queues live");
        }
    }

    /// Checks that only living queue pairs and shared receive queues have bookings.
    pub fn room<E: Entry>(&self, cq: &CompletionQueue<E>, qps: u32, srqs: u32) {
        let booked = BOOKED * qps + BUFFERS as u32 * srqs;
        let (free, all) = (cq.unbooked(), cq.capacity());
        if free + booked < all && !(self.has_forgotten() || self.is_broken() || self.hides_some()) {
            let alive = format!("{qps} queue pairs and {srqs} shared receive queues live");
            self.complain(format!("{free} of {all} entries are not booked, but {alive}"));
        }
    }

    /// A living queue pair has its booking.
    pub fn booked<T: Transport, S: State, P: Profile>(
        &self,
        qp: &QueuePair<T, S, P>,
        cq: &CompletionQueue<P::Entry>,
    ) {
        let (depth, booked) = (qp.depth(), cq.capacity() - cq.unbooked());
        if booked < depth.send + 1 + depth.recv && !self.is_broken() {
            self.complain(format!("a queue pair lives that needs room, and {booked} are booked"));
        }
    }

    /// Completions in a queue keep their room until they are taken.
    pub fn has_room<E: Owned>(&self, cq: &mut CompletionQueue<E>) {
        let (booked, mut waiting) = (cq.capacity() - cq.unbooked(), 0);
        self.each(cq, self.empty(), |completion| {
            waiting += 1;
            drop(completion);
        });
        if waiting > booked && !self.is_broken() {
            self.complain(format!(
                "{waiting} completions waited, and room for {booked} was booked"
            ));
        }
    }

    /// No more is outstanding than the depths allow; a drain adds one work request.
    pub fn bounded<T: Transport, S: State, P: Profile>(&self, qp: &mut QueuePair<T, S, P>) {
        let drains = std::any::type_name::<S>() == std::any::type_name::<state::Err>();
        let (depth, room) = (qp.depth(), (qp.send_room(), qp.recv_room()));
        let (sends, receives) = (qp.sends_outstanding(), qp.recvs_outstanding());
        if sends > depth.send as usize + drains as usize || receives > depth.recv as usize {
            self.complain(format!("{sends} sends and {receives} receives are outstanding"));
        }
        if room.0 > depth.send as usize || room.1 > depth.recv as usize {
            self.complain(format!("there is room for {} sends and {} receives", room.0, room.1));
        }
    }

    /// A rejected call has changed nothing: the same number of completions wait.
    pub fn waiting<E: Entry>(&self, cq: &mut CompletionQueue<E>) -> usize {
        self.polled(cq.poll()).map_or(0, |completions| completions.len())
    }

    /// Destroys it; if that is refused, the queue is unchanged.
    pub fn destroy_cq<E: Entry>(&self, mut cq: CompletionQueue<E>) -> Option<CompletionQueue<E>> {
        let before = (self.waiting(&mut cq), cq.capacity());
        let mut cq = cq.destroy().err()?.into_object();
        let after = (self.waiting(&mut cq), cq.capacity());
        // More may have arrived by now.
        if (after.0 < before.0 || after.1 != before.1) && !self.is_broken() {
            self.complain(format!(
                "{} completions wait after it was refused, {} did",
                after.0, before.0
            ));
        }
        Some(cq)
    }
}

/// Errors.
impl World {
    /// A completion queue does not break by itself: it has room for all its completions.
    pub fn polled<T>(&self, polled: Result<T, proverbs::Error>) -> Option<T> {
        match polled {
            Ok(found) => Some(found),
            Err(error) => {
                if !self.is_broken() && error.errno() == Some(5) {
                    self.complain(format!("a completion queue broke: {error}"));
                }
                None
            }
        }
    }

    /// The device rejects no creation: the crate knows which objects belong together.
    pub fn made<T>(&self, made: Result<T, proverbs::Error>) -> Option<T> {
        const EINVAL: i32 = 22;
        let rejected = made.as_ref().err().filter(|error| error.errno() == Some(EINVAL));
        if let Some(error) = rejected.filter(|_| !self.is_broken()) {
            self.complain(format!("the device rejected a request that the crate allows: {error}"));
        }
        made.ok()
    }

    /// On a broken completion queue all buffers return as soon as its queue pairs are gone.
    pub fn dead<E: Entry>(&self, cq: &mut CompletionQueue<E>, pool: &Pool, before: usize) {
        if cq.poll().is_err() && pool.available() < before && !self.has_forgotten() {
            let here = pool.available();
            self.complain(format!(
                "a completion queue is broken, and {here} of {before} buffers \
                are free"
            ));
        }
    }

    fn refused<E: Entry>(&self, error: &PostError<E>) {
        let injected = self.fabric.injected();
        // A session and `ibv_bind_mw` have no bad_wr. rxe may have posted a refused work request,
        // unless the errno is ENOSPC; other devices posted nothing (R15.12, R19.10).
        let has_bad_wr = !["ibv_wr_complete", "ibv_bind_mw"].contains(&error.verb());
        let is_injected = injected.refuse != 0 || injected.outcome_unknown != 0;
        let is_unknown = if has_bad_wr { injected.outcome_unknown != 0 } else { is_injected };
        let is_fault = match error.kind() {
            PostErrorKind::Refused { .. } => {
                let is_told = if has_bad_wr { injected.refuse != 0 } else { is_injected };
                is_told || self.is_broken() || self.is_shrunk()
            }
            PostErrorKind::OutcomeUnknown { .. } => is_unknown,
            PostErrorKind::Poisoned => is_unknown || self.is_broken(),
            _ => true,
        };
        if !is_fault {
            self.complain(format!("{}: {}", error.verb(), error.kind()));
        }
    }

    /// A device refuses no post that the types allow, unless a fault makes it. Returns whether it
    /// was accepted.
    pub fn posted<T, E: Entry>(&self, posted: Result<T, PostError<E>>) -> bool {
        posted.map_err(|error| self.refused(&error)).is_ok()
    }

    /// Like `posted`, and returns refused entries.
    pub fn kept<E: Entry>(&self, posted: Result<(), PostError<E>>) -> Option<Rejected<E>> {
        let error = posted.err()?;
        self.refused(&error);
        let _ = (error.verb(), error.accepted(), error.is_full());
        Some(error.into_rejected())
    }
}

/// Waits.
impl World {
    /// Checks that a call keeps its time limit.
    pub fn within<A>(&self, time: Duration, act: impl FnOnce() -> A) -> A {
        let begun = Instant::now();
        let result = act();
        let took = begun.elapsed();
        if took > time + SLACK && !cfg!(miri) {
            self.complain(format!("a call took {took:?} of {time:?}"));
        }
        result
    }

    /// The time limit of a drain: until everything is flushed, unless some of it may never be.
    pub fn patience(&self) -> Duration {
        if self.is_strict() { DRAIN } else { Duration::from_millis(2) }
    }

    /// A wait on a broken queue fails at once.
    pub fn waits<E: Entry>(&self, channel: &mut CompletionChannel, cq: &mut CompletionQueue<E>) {
        if self.is_broken() && cq.poll().is_err() {
            let long = Duration::from_secs(30);
            self.within(Duration::ZERO, || channel.wait_timeout(cq, long).map(drop).is_ok());
            self.within(Duration::ZERO, || channel.wait_any(&mut [cq], Some(long)).is_ok());
        }
    }

    /// Polls until the queue is empty, and ignores the completions.
    pub fn dry<E: Owned>(&self, cq: &mut CompletionQueue<E>) {
        self.each(cq, self.empty(), |completion| drop(completion));
    }

    fn empty(&self) -> u32 {
        if cfg!(miri) && self.is_calm() { EMPTY_AND_CALM } else { EMPTY }
    }

    /// A load has passed through a completion queue. If it was as long as the queue, all earlier
    /// completions have been polled: then destroyed queue pairs have no bookings, even if the queue
    /// was never empty. A short program's load is shorter (`rounds`), and leaves earlier
    /// completions in the queue. Some may belong to a destroyed queue pair, which then keeps its
    /// room.
    pub fn loaded<E: Owned>(&self, cq: &mut CompletionQueue<E>) {
        if cfg!(miri) {
            self.dry(cq);
        }
    }

    /// Checks that a send's completion has only promised fields.
    fn says<E: Owned>(&self, completion: &Completion<'_, E>) {
        if completion.direction() == Direction::Send && completion.imm_data().is_some() {
            self.complain("a send returned an immediate");
        }
    }

    fn each<E: Owned>(
        &self,
        cq: &mut CompletionQueue<E>,
        most: u32,
        mut see: impl FnMut(Completion<'_, E>),
    ) {
        let mut empty = 0;
        for _ in 0..4000 {
            match self.polled(cq.poll()) {
                Some(completions) if completions.is_empty() => empty += 1,
                Some(completions) => {
                    empty = 0;
                    completions.for_each(|completion| {
                        self.says(&completion);
                        see(completion);
                    });
                }
                None => return,
            }
            if empty == most {
                return;
            }
        }
        self.complain("a completion queue is never empty");
    }
}

/// Queue pairs.
impl World {
    /// The queue pair is in the error state, and its completion queue was polled until empty:
    /// nothing is outstanding.
    pub fn flushed<T: Transport, P: Profile<Entry: Owned>>(
        &self,
        qp: &mut QueuePair<T, state::Err, P>,
        cq: &mut CompletionQueue<P::Entry>,
    ) {
        self.dry(cq);
        let _ = qp.send_room();
        let (sends, receives) = (qp.sends_outstanding(), qp.recvs_outstanding());
        if self.is_strict() && sends + receives != 0 {
            self.complain(format!(
                "{sends} sends and {receives} receives are outstanding after all completions were taken"
            ));
        }
    }

    /// The last send is signaled, and nothing delays it: when all completions were taken, none is
    /// outstanding.
    pub fn rested<T: Transport, S: State, P: Profile<Entry: Owned>>(
        &self,
        qp: &mut QueuePair<T, S, P>,
        cq: &mut CompletionQueue<P::Entry>,
    ) {
        let mut sends = 1;
        for most in [self.empty(), RETRIES] {
            if sends != 0 {
                self.each(cq, most, |completion| drop(completion));
                let _ = qp.send_room();
                sends = qp.sends_outstanding();
            }
        }
        // A receiver that is never ready may be retried forever.
        let for_ever = || qp.query().is_ok_and(|attr| attr.rnr_retry == Some(RnrRetry::Infinite));
        if self.is_calm() && sends != 0 && !for_ever() {
            self.complain(format!(
                "{sends} sends are outstanding after all completions were taken"
            ));
        }
    }

    /// Its room returns at once, since nothing was outstanding.
    pub fn ended<T: Transport, P: Profile<Entry: Owned>>(
        &self,
        mut qp: QueuePair<T, state::Err, P>,
        cq: &mut CompletionQueue<P::Entry>,
    ) -> Vec<P::Entry> {
        let mut home = Vec::new();
        let strict = self.is_strict();
        let found = |found: Drained<'_, P::Entry>| {
            if let Drained::Entry(entry) = found {
                home.push(entry);
            }
        };
        let drained = match strict {
            true => qp.drain(cq, found),
            false => self.within(self.patience(), || qp.drain_within(cq, self.patience(), found)),
        };
        // Completions from before a reset keep their room until the completion queue was found
        // empty.
        self.dry(cq);
        let (depth, before) = (qp.depth(), cq.unbooked());
        match drained {
            Ok(()) => {
                let _ = qp.destroy();
                if strict && cq.unbooked() < before + depth.send + 1 + depth.recv {
                    self.complain("a drained and destroyed queue pair has a booking");
                }
            }
            Err(error) if strict => self.complain(format!("drain: {error}")),
            Err(_) => {}
        }
        home
    }

    /// Whether the completion of a send arrives without a poll: on UC it waits for no peer.
    pub fn comes<P: Profile<Entry: Owned>>(
        &self,
        qp: &mut QueuePair<Uc, Rts, P>,
        cq: &mut CompletionQueue<P::Entry>,
    ) -> bool {
        self.dry(cq);
        let lives = qp.query().is_ok_and(|it| it.state == Some(QpState::Rts));
        lives && self.is_calm()
    }

    /// The number of messages that must arrive: both are connected and there are no faults.
    pub fn expects<T: Transport, P: Profile>(
        &self,
        one: &mut QueuePair<T, Rts, P>,
        two: &mut QueuePair<T, Rts, P>,
        srq: Option<(SrqId, CqId, usize)>,
    ) -> u32 {
        let pair = (one.qp_num(), two.qp_num(), srq.map(|(id, ..)| id));
        let lives = |state| state == Ok(Some(QpState::Rts));
        let lives = lives(one.query().map(|it| it.state).map_err(drop))
            && lives(two.query().map(|it| it.state).map_err(drop));
        // The receives of another completion queue were used, but not yet polled.
        let is_ours =
            |(of, by): &(SrqId, CqId)| srq.is_none_or(|(id, cq, _)| *of != id || *by == cq);
        let ours = lock(&self.brought).iter().all(is_ours);
        if !self.is_calm() || !lives || !ours || !lock(&self.pairs).contains(&pair) {
            return 0;
        }
        let (room, receives) =
            (one.send_room(), srq.map_or(two.recvs_outstanding(), |(.., receives)| receives));
        // Requests that wait for a receive would come first.
        if one.sends_outstanding() == 0 { room.min(receives) as u32 } else { 0 }
    }

    /// This many messages were sent to it before it was destroyed: those that arrived are reported.
    /// (The last may not have.)
    pub fn crashed<E: Owned>(&self, qp_num: u32, cq: &mut CompletionQueue<E>, sent: u32) {
        let mut seen = 0;
        self.each(cq, self.empty(), |completion| {
            let is_receive = completion.direction() == Direction::Receive;
            seen += (completion.qp_num() == qp_num && is_receive) as u32;
        });
        if sent > 2 && seen == 0 {
            self.complain(format!("none of {sent} messages to a destroyed queue pair is reported"));
        }
    }

    /// This many messages were sent to it, each with its number as its immediate; they have
    /// arrived, in order.
    pub fn arrived<E: Owned>(&self, qp_num: u32, cq: &mut CompletionQueue<E>, sent: u32) {
        let mut seen = 0;
        self.each(cq, self.empty(), |completion| {
            let is_receive = completion.direction() == Direction::Receive;
            if completion.qp_num() == qp_num && is_receive {
                if completion.imm_data() != Some(seen) {
                    self.complain(format!("message {seen} came as {completion:?}"));
                }
                seen += 1;
            }
        });
        if seen != sent {
            self.complain(format!("{seen} of {sent} messages arrived"));
        }
    }
}
