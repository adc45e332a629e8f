//! The steps that move queue pairs between states, and that create and destroy them.

use proverbs::loopback::Fault;
use proverbs::prelude::*;
use proverbs::qp::Drained;

use crate::books::*;
use crate::entries::numbered;
use crate::program::Then;
use crate::wire::*;
use crate::world::{UNKNOWN, World};

impl<T: Wire<P>, P: Kind> World<T, P> {
    fn begin_life(&mut self, slot: usize) {
        let life = self.next_life;
        self.next_life += 1;
        let qp = &mut self.qps[slot];
        qp.life = life;
        qp.poisoned = (false, false);
        qp.is_drained = false;
        let (qpn, send_cq, recv_cq) = (qp.qpn, qp.send_cq, qp.recv_cq);
        self.lives.insert(life, Life { qpn, slot, send_cq, recv_cq, ..Life::default() });
    }

    /// Creates a queue pair, unless a completion queue has no room for it.
    pub fn create(&mut self, slot: usize) -> Check {
        let depth = Self::depth(&self.config);
        // And a drain's marker.
        let booked = match self.config.shares {
            true => [0, 0],
            false => [depth.send as usize + 1, depth.recv as usize],
        };
        let (send_cq, recv_cq) = (self.qps[slot].send_cq, self.qps[slot].recv_cq);
        let fits = (0..self.cqs.len()).all(|at| {
            let needs = |cq, room| if cq == at { room } else { 0 };
            let is_new = P::SHARED && !self.srq_books_on.contains(&recv_cq);
            let of_srq = if is_new { self.config.buffers } else { 0 };
            let needed = needs(send_cq, booked[0]) + needs(recv_cq, booked[1] + of_srq);
            let taken = if self.config.shares { self.claimed(at) } else { self.booked(at) };
            taken + needed <= self.cqs[at].capacity() as usize
        });
        let (send, recv) = (&self.cqs[send_cq], &self.cqs[recv_cq]);
        let made = T::create(Parents { pd: &self.pd, send, recv, depth }, &self.srq);
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                let is_full =
                    matches!(error.kind(), ErrorKind::CqTooSmall { .. } | ErrorKind::CqFull { .. });
                hold!(
                    is_full && !fits,
                    "QP {slot}: there is room, but it cannot be created: {error}"
                );
                return Ok(());
            }
        };
        hold!(fits, "QP {slot}: it was created, but there is no room");
        let mut any = Any::Reset(made);
        let way = T::way_to(&mut any, &self.dev, &self.pd);
        let qp = &mut self.qps[slot];
        qp.qpn = each!(&any, qp => qp.qp_num(), 0);
        (qp.any, qp.way, qp.peer) = (any, way, 0);
        self.begin_life(slot);
        self.life(slot).booked = booked;
        if P::SHARED {
            self.srq_books_on.insert(recv_cq);
        }
        Ok(())
    }

    pub fn advance(&mut self, slot: usize) {
        let peer = self.qps[slot ^ 1].qpn;
        let any = self.qps[slot].any.take();
        let from_init = matches!(any, Any::Init(_));
        let qp = &mut self.qps[slot];
        qp.any = T::advance(any, &self.dev, peer, &self.wish);
        if from_init {
            qp.peer = peer;
        }
    }

    pub fn bring_up(&mut self, slot: usize) {
        for _ in 0..3 {
            self.advance(slot);
        }
    }

    pub fn fail(&mut self, slot: usize) {
        let any = match self.qps[slot].any.take() {
            Any::Init(qp) => Any::Error(qp.to_error().expect("INIT to ERR")),
            Any::Rtr(qp) => Any::Error(qp.to_error().expect("RTR to ERR")),
            Any::Rts(qp) => Any::Error(qp.to_error().expect("RTS to ERR")),
            Any::Draining(qp) => Any::Error(qp.to_error().expect("SQD to ERR")),
            Any::Sqd(qp) => Any::Error(qp.to_error().expect("SQD to ERR")),
            Any::Sqe(qp) => Any::Error(qp.to_error().expect("SQE to ERR")),
            Any::Error(qp) => Any::Error(qp.to_error().expect("ERR to ERR")),
            other => other,
        };
        self.qps[slot].any = any;
    }

    /// The end of a life: the entries of its ring were freed.
    fn end_life(&mut self, slot: usize, is_reset: bool) -> Check {
        let id = self.qps[slot].life;
        let mut sends = std::mem::take(&mut self.life(slot).sends);
        let outstanding = [sends.len(), self.life(slot).recvs.len()];
        let mut left = outstanding;
        if !is_reset {
            // Completions from before a reset may still take room.
            let qpn = self.qps[slot].qpn;
            for life in self.lives.values().filter(|life| life.qpn == qpn) {
                left[0] += life.withheld.0;
                left[1] += life.withheld.1;
            }
        }
        // Messages that did not complete may never arrive, without a report.
        for wr in &sends {
            self.doubt(wr.to, wr.number);
        }
        if self.config.takes_completions_along() {
            self.miss_arrivals(slot);
        }
        self.life(slot).left = outstanding;
        if is_reset {
            let life = self.life(slot);
            life.withheld = (outstanding[0], outstanding[1]);
        }
        if P::SELECTIVE {
            for buffer in sends.drain(..).flat_map(|wr| wr.buffers) {
                self.places.go(buffer, Place::Sends(id), Place::Home)?;
            }
        }
        let life = self.life(slot);
        life.sends = sends;
        // Without outstanding work it is over at once.
        life.stages = left.map(|left| if left == 0 { Stage::Over } else { Stage::Ended });
        if life.is_quiet() {
            life.withheld = (0, 0);
        }
        if !is_reset {
            for (booked, left) in life.booked.iter_mut().zip(left) {
                *booked = if left == 0 { 0 } else { *booked };
            }
        }
        self.resync(slot);
        Ok(())
    }

    /// Messages that arrived may never be reported.
    fn miss_arrivals(&mut self, slot: usize) {
        let stream = self.streams.entry(self.qps[slot].qpn).or_default();
        stream.0.iter_mut().for_each(|message| message.drained = true);
    }

    fn doubt(&mut self, to: u32, number: u64) {
        let message = self.streams.get_mut(&to).and_then(|stream| stream.find(number));
        if let Some(message) = message {
            message.doubtful = true;
        }
    }

    /// Whether the device might remove receives of the shared queue if it were destroyed now.
    fn may_lose_receives(&self, slot: usize) -> bool {
        let qp = &self.qps[slot];
        let lives = !matches!(qp.any, Any::Reset(_) | Any::Gone);
        P::SHARED && lives && !qp.is_drained && !self.srq_posted.is_empty()
    }

    /// Resets it; or destroys it, if a reset might lose receives.
    pub fn reset(&mut self, slot: usize) -> Check {
        let loses = self.may_lose_receives(slot) && !matches!(self.qps[slot].any, Any::Init(_));
        let any = self.qps[slot].any.take();
        if matches!(any, Any::Gone) {
            return Ok(());
        }
        match any.reset() {
            Ok(any) => {
                hold!(!loses, "QP {slot}: it was reset before it was drained");
                self.qps[slot].any = any;
            }
            Err(any) => {
                hold!(loses, "QP {slot}: it was not reset");
                self.qps[slot].any = any;
                return self.destroy(slot, false);
            }
        }
        self.end_life(slot, true)?;
        // The booking stays.
        let booked = std::mem::take(&mut self.life(slot).booked);
        self.begin_life(slot);
        self.life(slot).booked = booked;
        Ok(())
    }

    pub fn reconnect(&mut self, slot: usize) -> Check {
        let pair = [slot & !1, slot | 1];
        for slot in pair {
            if self.may_lose_receives(slot) {
                self.fail(slot);
                self.drain(slot)?;
            }
            if self.over {
                return Ok(());
            }
            if matches!(self.qps[slot].any, Any::Gone) {
                self.create(slot)?;
            }
            self.reset(slot)?;
        }
        self.settle_if_bufferless()?;
        for slot in pair {
            self.bring_up(slot);
        }
        Ok(())
    }

    pub fn destroy(&mut self, slot: usize, politely: bool) -> Check {
        let is_deferred = self.may_lose_receives(slot);
        let any = self.qps[slot].any.take();
        if matches!(any, Any::Gone) {
            return Ok(());
        }
        let busy = self.injected().busy;
        if !politely {
            drop(any);
        } else if let Err(any) = any.destroy() {
            hold!(self.injected().busy == busy + 1, "QP {slot}: it was not refused");
            self.qps[slot].any = any;
            return Ok(());
        }
        // Destroyed only when its completion queue was found empty, since it might remove receives.
        if is_deferred {
            return self.see_deferred_end(slot, busy);
        }
        if self.is_kept(slot, busy) {
            return Ok(());
        }
        self.end_life(slot, false)
    }

    /// Whether the device refused twice to destroy a dropped queue pair, given the earlier number
    /// of refusals: it stays. (The fate of sends in transit is unknown.)
    fn is_kept(&mut self, slot: usize, busy: u64) -> bool {
        let is_kept = self.injected().busy == busy + 2;
        if is_kept {
            let life = self.life(slot);
            life.forgotten = true;
            self.over |= !life.sends.is_empty();
            self.tally.forgotten += 1;
        }
        is_kept
    }

    /// A queue pair that was dropped but not destroyed: its sends are flushed, or return with it.
    fn see_deferred_end(&mut self, slot: usize, busy: u64) -> Check {
        // It is destroyed when its receives' completion queue is found empty. Until then its sends
        // may be flushed, though their queue was found empty before.
        let life = self.life(slot);
        let sends = if life.send_cq == life.recv_cq { Stage::Ended } else { Stage::Alive };
        life.stages = [sends, Stage::Ended];
        for wr in life.sends.clone() {
            self.doubt(wr.to, wr.number);
        }
        let (is_busy, booked) = (!self.life(slot).sends.is_empty(), self.life(slot).booked);
        self.settle()?;
        if !self.over && self.is_kept(slot, busy) {
            self.over = is_busy;
            // It was assumed to be over.
            let life = self.life(slot);
            (life.stages, life.booked) = ([Stage::Alive; 2], booked);
            return Ok(());
        }
        let sends = &mut self.life(slot).stages[0];
        if *sends == Stage::Alive {
            *sends = Stage::Ended;
            self.settle()?;
        }
        hold!(
            self.over || self.life(slot).is_quiet(),
            "QP {slot}: it was dropped, and is not over"
        );
        self.resync(slot);
        Ok(())
    }

    /// The queue pair leaks: it still receives, and its buffers return by completions or not at
    /// all. (The effect of sends in transit on the peer's memory would be unknown.)
    pub fn forget(&mut self, slot: usize) {
        if matches!(self.qps[slot].any, Any::Gone) || !self.life(slot).sends.is_empty() {
            return;
        }
        self.life(slot).forgotten = true;
        self.tally.forgotten += 1;
        std::mem::forget(self.qps[slot].any.take());
    }

    pub fn drain(&mut self, slot: usize) -> Check {
        if !matches!(self.qps[slot].any, Any::Error(_)) {
            return Ok(());
        }
        let poisoned = self.qps[slot].poisoned;
        let (send_cq, recv_cq) = (self.qps[slot].send_cq, self.qps[slot].recv_cq);
        let mut cqs = vec![send_cq];
        if recv_cq != send_cq {
            cqs.push(recv_cq);
        }
        for at in cqs {
            let Any::Error(mut qp) = self.qps[slot].any.take() else { return Ok(()) };
            let mut cq = self.cqs.remove(at);
            let mut result = Ok(());
            let drained = qp.drain(&mut cq, |drained| {
                if result.is_err() {
                    return;
                }
                result = match drained {
                    Drained::Entry(entry) => self.drained(slot, entry),
                    Drained::Other(completion) => self.completed(at, completion, Then::Drop),
                };
            });
            self.cqs.insert(at, cq);
            // After the drain's own, foreign completions may be left of its last poll.
            self.left[at] = UNKNOWN;
            self.qps[slot].any = Any::Error(qp);
            result?;
            match drained {
                Ok(()) => {
                    hold!(poisoned == (false, false), "QP {slot}: a poisoned queue was drained")
                }
                Err(_) if poisoned != (false, false) => return self.settle(),
                // The outcome of the marker is unknown.
                Err(error) if self.knows_nothing_of(&error) => {
                    self.reset(slot)?;
                    return self.settle();
                }
                Err(_) if self.config.has(|f| matches!(f, Fault::BreakCq | Fault::FailPoll)) => {
                    self.over = true;
                    return Ok(());
                }
                Err(error) => return Err(format!("QP {slot}: {error}")),
            }
            // Requests that are left on the drained queues had no buffer.
            let (sends, recvs) = (at == send_cq, at == recv_cq);
            let life = self.life(slot);
            let left = |queue: &std::collections::VecDeque<Wr>| {
                queue.iter().all(|wr| wr.buffers.is_empty())
            };
            hold!(!sends || left(&life.sends), "QP {slot}: sends are left after a drain");
            hold!(!recvs || left(&life.recvs), "QP {slot}: receives are left after a drain");
            if sends {
                for wr in std::mem::take(&mut life.sends) {
                    self.doubt(wr.to, wr.number);
                }
            }
            if recvs {
                self.life(slot).recvs.clear();
                self.miss_arrivals(slot);
            }
        }
        self.qps[slot].is_drained = true;
        self.resync(slot);
        self.settle()
    }

    fn knows_nothing_of(&self, error: &proverbs::Error) -> bool {
        let is_eio = error.errno() == Some(libc::EIO);
        is_eio && self.config.has(|fault| matches!(fault, Fault::OutcomeUnknown { .. }))
    }

    /// An entry of the drained queue pair: the oldest of its sends or of its receives.
    fn drained(&mut self, slot: usize, entry: Held) -> Check {
        let id = self.qps[slot].life;
        let (entry, ids) = numbered(Some(entry), &self.places);
        let Some(entry) = entry else { return Ok(()) };
        // A shared buffer has no visible number; it can only be a send.
        let of_receives =
            ids.first().is_some_and(|&buffer| self.places.of(buffer) == Place::Receives(id));
        let first = |wr: &Wr| if ids.is_empty() { wr.is_shared } else { wr.buffers == ids };
        let life = self.life(slot);
        let queue = if of_receives { &mut life.recvs } else { &mut life.sends };
        let mut skipped = Vec::new();
        let wr = loop {
            let Some(wr) = queue.pop_front() else {
                return Err(format!(
                    "QP {slot}: a drain returned {entry:?}, which is not \
                    outstanding"
                ));
            };
            if first(&wr) {
                break wr;
            }
            hold!(
                wr.buffers.is_empty(),
                "QP {slot}: a drain returned {entry:?} before {:?}",
                wr.buffers
            );
            skipped.push(wr);
        };
        skipped.push(wr.clone());
        for wr in skipped.iter().filter(|_| !of_receives) {
            self.doubt(wr.to, wr.number);
        }
        let place = if of_receives { Place::Receives(id) } else { Place::Sends(id) };
        let got = self.came_back_as(entry, place, &wr)?;
        hold!(got == wr.buffers, "QP {slot}: a drain returned {got:?} for {:?}", wr.buffers);
        Ok(())
    }

    /// Entries without a buffer are distinguished only by their order: there must be no stale ones.
    pub fn settle_if_bufferless(&mut self) -> Check {
        if self.config.bufferless { self.settle() } else { Ok(()) }
    }

    /// Polls all queues until they are empty.
    pub fn settle(&mut self) -> Check {
        // Twice: a poll of one queue may cause completions in another.
        for _ in 0..2 {
            for at in 0..self.cqs.len() {
                while !self.over && self.poll(at, 16, Then::Drop)? {}
            }
        }
        Ok(())
    }

    /// Takes back orphaned entries, and counts them. One call takes all, and counts its own.
    pub fn reclaim(&mut self, at: usize) -> Check {
        let (must, lent) = if self.left[at] == 0 { self.settle_due(at)? } else { (0, 0) };
        let lent_first = self.tally.steps % 2 == 0;
        let first_lent = if lent_first { self.cqs[at].reclaim_handles() } else { 0 };
        let got = self.pool.reclaim(&mut self.cqs[at]);
        let got_lent = first_lent + self.cqs[at].reclaim_handles();
        let expected = if lent_first { (0, lent) } else { (must, 0) };
        hold!(
            (got, got_lent) == expected,
            "reclaim returned {got} entries and {got_lent} shared ones, {must} and {lent} were \
             orphaned"
        );
        Ok(())
    }
}
