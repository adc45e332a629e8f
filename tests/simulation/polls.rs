//! Polling, and the legal content of completions.

use std::time::Duration;

use proverbs::completion::{Completions, Direction, WcOpcode};
use proverbs::loopback::Fault;
use proverbs::prelude::*;

use crate::books::*;
use crate::entries::numbered;
use crate::program::{Then, What};
use crate::wire::*;
use crate::world::World;

/// How the entry of a send came back.
enum Came {
    Entry(Option<Held>),
    /// Its completion was not taken.
    Home,
}

impl<T: Wire<P>, P: Kind> World<T, P> {
    /// Takes up to `most` completions of one poll. Returns whether there were any.
    pub fn poll(&mut self, at: usize, most: usize, then: Then) -> Check<bool> {
        if self.over {
            return Ok(false);
        }
        let mut cq = self.cqs.remove(at);
        let result = self.took(at, cq.poll(), most, then);
        self.cqs.insert(at, cq);
        Ok(result? && !self.over)
    }

    /// Like `poll`, by the channel: arms, polls, and sleeps for no time.
    pub fn wait(&mut self, at: usize) -> Check {
        // Waiting polls before it arms and after. If the second poll found something, the result of
        // the first would not be visible: hence one before.
        if self.poll(at, 16, Then::Drop)? || self.over {
            return Ok(());
        }
        let Some(mut channel) = self.channel.take() else { return Ok(()) };
        let mut cq = self.cqs.remove(at);
        let polled = channel.wait_timeout(&mut cq, Duration::ZERO);
        let result = self.took(at, polled, 16, Then::Drop);
        self.cqs.insert(at, cq);
        self.channel = Some(channel);
        result.map(drop)
    }

    /// Handles the completions of a poll. Returns whether there were any.
    fn took(
        &mut self,
        at: usize,
        polled: Result<Completions<'_, Held>, proverbs::Error>,
        most: usize,
        then: Then,
    ) -> Check<bool> {
        let count = polled.as_ref().map_or(0, |completions| completions.len());
        let died = polled.is_err();
        // Leftovers of an earlier poll come first, and the device is not polled.
        let is_asked = self.left[at] == 0;
        if is_asked {
            self.settle_due(at)?;
            self.each_stage(at, |stage| match stage {
                Stage::Ended => Stage::Known { passed: 0, seen_empty: false },
                other => other,
            });
        }
        let (some, result) = self.take_all(at, polled, most, then);
        self.left[at] = count - count.min(most);
        result?;
        if is_asked && !died {
            self.each_stage(at, |stage| match stage {
                Stage::Known { .. } if count == 0 => Stage::Over,
                Stage::Known { passed, seen_empty } => {
                    let (passed, seen_empty) = (passed + count, seen_empty || count < 16);
                    Stage::Known { passed, seen_empty }
                }
                other => other,
            });
            self.settle_over()?;
            if count == 0 {
                self.nothing_is_lost(at)?;
            }
        }
        Ok(some)
    }

    /// Updates the progress of ending lives, from the view of this completion queue.
    fn each_stage(&mut self, at: usize, to: impl Fn(Stage) -> Stage) {
        for life in self.lives.values_mut().filter(|life| !life.forgotten) {
            for (cq, stage) in life.cqs().into_iter().zip(&mut life.stages) {
                if cq == at {
                    *stage = to(*stage);
                }
            }
        }
    }

    /// The result of a poll takes effect with the next one that polls the device.
    pub fn settle_due(&mut self, at: usize) -> Check<(usize, usize)> {
        let largest = self.largest[at] as usize;
        self.each_stage(at, |stage| match stage {
            Stage::Known { passed, seen_empty } if seen_empty || passed >= largest => Stage::Over,
            other => other,
        });
        self.settle_over()
    }

    /// Room of ended lives is free, and their buffers returned. Returns how many entries these
    /// were, and how many of shared memory.
    fn settle_over(&mut self) -> Check<(usize, usize)> {
        let (mut entries, mut lent) = (0, 0);
        let mut home = Vec::new();
        for (&id, life) in &mut self.lives {
            for (stage, booked) in life.stages.into_iter().zip(&mut life.booked) {
                if stage == Stage::Over {
                    *booked = 0;
                }
            }
            if !life.is_quiet() {
                continue;
            }
            life.withheld = (0, 0);
            for (queue, place) in
                [(&mut life.sends, Place::Sends(id)), (&mut life.recvs, Place::Receives(id))]
            {
                for wr in queue.drain(..) {
                    if wr.is_shared || self.places.is_piece(&wr) {
                        lent += 1;
                    } else if !wr.buffers.is_empty() {
                        entries += 1;
                    }
                    home.extend(wr.buffers.iter().map(|&buffer| (buffer, place)));
                }
            }
        }
        for (buffer, place) in home {
            self.places.go(buffer, place, Place::Home)?;
        }
        let qps = &self.qps;
        self.lives.retain(|&id, life| !life.is_quiet() || qps[life.slot].life == id);
        self.tally.reclaimed += (entries + lent) as u64;
        Ok((entries, lent))
    }

    /// RC: no received message is missing.
    fn nothing_is_lost(&self, at: usize) -> Check {
        for (&id, life) in &self.lives {
            let gone =
                self.qps[life.slot].life != id || matches!(self.qps[life.slot].any, Any::Gone);
            if T::RELIABLE && life.recv_cq == at && !gone && !life.forgotten {
                let lost = self.streams.get(&life.qpn).and_then(Stream::lost);
                hold!(lost.is_none(), "RC: message {lost:?} was acknowledged and is lost");
            }
        }
        Ok(())
    }

    fn take_all(
        &mut self,
        at: usize,
        polled: Result<Completions<'_, Held>, proverbs::Error>,
        most: usize,
        then: Then,
    ) -> (bool, Check) {
        match polled {
            Err(_) => {
                self.over = true;
                let meant =
                    self.config.has(|fault| matches!(fault, Fault::BreakCq | Fault::FailPoll));
                (true, if meant { Ok(()) } else { Err("a completion queue broke".into()) })
            }
            Ok(completions) => {
                let some = !completions.is_empty();
                for completion in completions.take(most) {
                    if let Err(why) = self.completed(at, completion, then) {
                        return (some, Err(why));
                    }
                }
                (some, Ok(()))
            }
        }
    }

    pub fn completed(&mut self, at: usize, completion: Completion<'_, Held>, then: Then) -> Check {
        self.tally.completions += 1;
        if completion.is_selective() {
            return self.selective(completion, then);
        }
        let qpn = completion.qp_num();
        match completion.direction() {
            Direction::Send => self.sent(at, qpn, completion, then),
            Direction::Receive => self.received(at, qpn, completion, then),
        }
    }

    /// The slot whose queue pair has this number now.
    fn slot_of(&self, qpn: u32) -> Option<usize> {
        self.qps.iter().position(|qp| qp.qpn == qpn && !matches!(qp.any, Any::Gone))
    }

    fn selective(&mut self, completion: Completion<'_, Held>, then: Then) -> Check {
        hold!(P::SELECTIVE, "a completion of a ring, and there is none");
        let qpn = completion.qp_num();
        // A failure must be handled: the next completion does not cover it.
        let is_ignored = then == Then::Ignore && completion.status().is_ok();
        let Some(slot) = self.slot_of(qpn) else { return Ok(()) };
        let any = &mut self.qps[slot].any;
        if is_ignored {
            // It releases its entries later; the lookup of room returns them.
            let before = any.sends_outstanding();
            drop(completion);
            let popped = before - any.sends_outstanding();
            any.rooms();
            for _ in 0..popped {
                let Some(wr) = self.life(slot).sends.pop_front() else {
                    return Err(format!("QP {slot}: a dropped completion released too much"));
                };
                self.send_done(slot, &wr, Ok(()), Came::Home, then)?;
            }
            return Ok(());
        }
        let before = any.sends_outstanding();
        let completed = each!(any, qp => P::complete(qp, completion), return Ok(()));
        let after = any.sends_outstanding();
        let Ok((status, released)) = completed else {
            // From before a reset.
            return Ok(());
        };
        let popped = before - after;
        hold!(popped > 0, "QP {slot}: a completion released nothing");
        let mut released = released.into_iter();
        for i in 0..popped {
            let Some(wr) = self.life(slot).sends.pop_front() else {
                return Err(format!("QP {slot}: a completion released more than was posted"));
            };
            let is_last = i + 1 == popped;
            let status = if is_last { status } else { Ok(()) };
            hold!(
                !is_last || wr.signaled || status.is_err(),
                "QP {slot}: {} completed, and was not signaled",
                wr.number
            );
            let entry = if wr.buffers.is_empty() { None } else { released.next() };
            self.send_done(slot, &wr, status, Came::Entry(entry), then)?;
        }
        hold!(released.next().is_none(), "QP {slot}: more entries than work requests");
        Ok(())
    }

    fn sent(&mut self, _: usize, qpn: u32, completion: Completion<'_, Held>, then: Then) -> Check {
        hold!(!P::SELECTIVE, "a send of a ring completed without it");
        let status = completion.status().map_err(|error| error.status);
        if let Some(opcode) = completion.opcode() {
            hold!(!matches!(opcode, WcOpcode::Recv), "a send completed as {opcode:?}");
        }
        let (entry, ids) = numbered(completion.into_entry(), &self.places);
        // The life that the buffer was posted in; without a buffer the oldest, since only the order
        // is known.
        let life = match (&entry, ids.first()) {
            (_, Some(&buffer)) => match self.places.of(buffer) {
                Place::Sends(life) => life,
                other => {
                    return Err(format!("a send gave back buffer {buffer}, which is {other:?}"));
                }
            },
            (Some(AnyBuf::Shared(buf)), None) => {
                let number = buf.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                let mut lives = self.lives.iter();
                let posted = |wr: &Wr| Some(wr.number) == number;
                let found = lives.find(|(_, life)| life.sends.iter().any(posted));
                found.map(|(&id, _)| id).ok_or("a shared buffer came back that was not posted")?
            }
            _ => self.oldest_with_sends(qpn)?,
        };
        let Some(known) = self.lives.get_mut(&life) else {
            return Err(format!("a completion of a send of no life of QP {qpn:#x}"));
        };
        hold!(known.qpn == qpn, "a completion of QP {qpn:#x} for a send of {:#x}", known.qpn);
        let Some(wr) = known.sends.pop_front() else {
            return Err(format!("QP {qpn:#x}: a send completed, and none is outstanding"));
        };
        let slot = known.slot;
        self.send_done_in(slot, life, &wr, status, Came::Entry(entry), then)
    }

    /// Completions of an earlier life come before later ones.
    fn oldest_with_sends(&self, qpn: u32) -> Check<u32> {
        let mut lives = self.lives.iter();
        let may = |life: &Life| life.qpn == qpn && !life.sends.is_empty() && !life.is_quiet();
        let found = lives.find(|(_, life)| may(life));
        found.map(|(&id, _)| id).ok_or_else(|| format!("QP {qpn:#x}: an unknown send completed"))
    }

    fn send_done(
        &mut self,
        slot: usize,
        wr: &Wr,
        status: Result<(), WcStatus>,
        entry: Came,
        then: Then,
    ) -> Check {
        let life = self.qps[slot].life;
        self.send_done_in(slot, life, wr, status, entry, then)
    }

    fn send_done_in(
        &mut self,
        slot: usize,
        life: u32,
        wr: &Wr,
        status: Result<(), WcStatus>,
        came: Came,
        then: Then,
    ) -> Check {
        let came_home = matches!(came, Came::Home);
        let entry = match came {
            Came::Entry(entry) => entry,
            Came::Home => {
                for &buffer in &wr.buffers {
                    self.places.go(buffer, Place::Sends(life), Place::Home)?;
                }
                None
            }
        };
        let stale = self.qps[slot].life != life || matches!(self.qps[slot].any, Any::Gone);
        hold!(
            came_home || entry.is_some() != wr.buffers.is_empty(),
            "send {} completed with {entry:?}, it was posted with {:?}",
            wr.number,
            wr.buffers
        );
        self.allowed(life, status)?;
        if let Some(message) = self.streams.get_mut(&wr.to).and_then(|s| s.find(wr.number)) {
            message.acknowledged = status.is_ok() && T::RELIABLE;
            message.doubtful &= status.is_err();
            message.failed = status.is_err();
            hold!(
                status.is_ok() || message.seen == 0,
                "message {} arrived, and its send failed",
                wr.number
            );
            if !T::RELIABLE && status.is_ok() && message.seen == 0 {
                self.tally.lost_unreliable += wr.len as u64;
            }
        }
        let got = self.bytes_of(&entry);
        if status.is_ok() && T::RELIABLE && !stale {
            let fetched = matches!(wr.what, What::Read | What::Swap | What::Add);
            let got = got.as_deref().filter(|_| fetched);
            self.regions[wr.region].1.apply(wr, got)?;
        }
        if status.is_ok() {
            self.tally.bytes += wr.len as u64;
        }
        if let Some(entry) = entry {
            self.take_in(entry, Place::Sends(life), wr, then)?;
        }
        let idle = !stale && self.life(slot).sends.is_empty();
        if idle && !self.qps[slot].poisoned.0 {
            self.check_region(slot ^ 1)?;
        }
        Ok(())
    }

    /// Whether a send of this life may end with this status.
    fn allowed(&mut self, life: u32, status: Result<(), WcStatus>) -> Check {
        let Some(life) = self.lives.get_mut(&life) else { return Ok(()) };
        let Err(status) = status else {
            hold!(!life.failed || !T::RELIABLE, "RC: a send succeeded behind one that failed");
            return Ok(());
        };
        let first = !life.failed;
        life.failed = true;
        let natural = match status {
            WcStatus::WrFlush => true,
            WcStatus::RnrRetryExc => {
                T::RELIABLE
                    && (self.config.rnr_retry.is_some()
                        || self.config.has(|f| f == Fault::NeverReady))
            }
            WcStatus::RetryExc => T::RELIABLE && self.config.timeout,
            WcStatus::RemInvReq => T::RELIABLE && self.config.short,
            _ => false,
        };
        hold!(
            natural || self.config.has(|fault| fault == Fault::Fail(status)),
            "a send failed by itself: {status}"
        );
        hold!(first || status.is_flush() || !T::RELIABLE, "RC: {status} behind a failure");
        Ok(())
    }

    fn received(
        &mut self,
        at: usize,
        qpn: u32,
        completion: Completion<'_, Held>,
        then: Then,
    ) -> Check {
        let mut message = None;
        let entry = match completion.outcome() {
            Outcome::Received(received) => {
                let write = received.opcode == WcOpcode::RecvRdmaWithImm;
                let bytes: Vec<u8> = received.segments().flatten().copied().collect();
                message = Some((bytes, received.byte_len as usize, received.imm_data, write, None));
                received.entry
            }
            Outcome::Datagram(datagram) => {
                let bytes: Vec<u8> = datagram.payload_segments().flatten().copied().collect();
                let len = datagram.payload_len();
                let src = Some(datagram.src_qp.get());
                message = Some((bytes, len, datagram.imm_data, false, src));
                datagram.entry
            }
            Outcome::Failed(failed) => {
                let status = failed.error.status;
                // It was too short; on UC and UD a queue pair's own queue keeps it for the next
                // message.
                let may = self.config.short && (T::RELIABLE || P::SHARED);
                let is_short = status == WcStatus::LocLen && may;
                self.tally.short += is_short as u64;
                hold!(status.is_flush() || is_short, "a receive failed by itself: {status}");
                failed.entry
            }
            _ => return Err("a receive completed as a send".into()),
        };
        match entry {
            Some(entry) => self.receive_done(at, qpn, entry, then)?,
            None => self.empty_receive_done(at, qpn)?,
        }
        let Some((bytes, byte_len, imm, write, src_qp)) = message else { return Ok(()) };
        let arrival = Arrival { bytes: &bytes, byte_len, imm, write, src_qp };
        let may = self.may();
        let stream = self.streams.entry(qpn).or_default();
        let len =
            if T::RELIABLE { stream.reliable(&arrival) } else { stream.unreliable(&arrival, may) };
        let len = len.map_err(|error| format!("QP {qpn:#x}: {error}"))?;
        self.tally.bytes += len as u64;
        if !T::RELIABLE && stream.0.len() > 400 {
            stream.0.drain(..200);
        }
        Ok(())
    }

    /// Like `receive_done`, without a buffer: only its order identifies it.
    fn empty_receive_done(&mut self, at: usize, qpn: u32) -> Check {
        let mut lives = self.lives.values_mut();
        let may = |life: &&mut Life| {
            life.qpn == qpn && life.recv_cq == at && !life.recvs.is_empty() && !life.is_quiet()
        };
        let wr = lives.find(may).and_then(|life| life.recvs.pop_front());
        let Some(wr) = wr else {
            return Err(format!("QP {qpn:#x}: an unknown receive completed"));
        };
        hold!(wr.buffers.is_empty(), "a receive of {:?} completed without its buffers", wr.buffers);
        Ok(())
    }

    /// Updates the receive queue: the oldest of the queue, or one of the shared queue.
    fn receive_done(&mut self, at: usize, qpn: u32, entry: Held, then: Then) -> Check {
        let (entry, ids) = numbered(Some(entry), &self.places);
        let (Some(entry), Some(&first)) = (entry, ids.first()) else {
            return Err("a receive gave back no buffer of ours".into());
        };
        let life = match self.places.of(first) {
            Place::Receives(life) => life,
            other => return Err(format!("a receive gave back buffer {first}, which is {other:?}")),
        };
        if life == 0 {
            let found = self.srq_posted.iter().position(|wr| wr.buffers == ids);
            let Some(found) = found else { return Err(format!("receive {ids:?} was not posted")) };
            let wr = self.srq_posted.remove(found);
            return self.take_in(entry, Place::Receives(0), &wr, then);
        }
        let Some(known) = self.lives.get_mut(&life) else {
            return Err(format!("a receive of a life that is over completed: {entry:?}"));
        };
        hold!(known.qpn == qpn && known.recv_cq == at, "a receive of another queue completed");
        let Some(wr) = known.recvs.pop_front() else {
            return Err(format!("QP {qpn:#x}: a receive completed, and none is outstanding"));
        };
        self.take_in(entry, Place::Receives(life), &wr, then)
    }
}
