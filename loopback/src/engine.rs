//! The engine: the order of work, and the fate of work requests and messages.

use std::time::Duration;

use super::clock::{until_retries_are_over, until_rnr_is_over};
use super::cq::Cqe;
use super::fabric::State;
use super::faults::Doom;
use super::qp::{Phase, Qp, Transport};
use super::requester::Message;
use super::wr::{Op, Send};
use proverbs_sys::types::raw::ibv_event_type;
use proverbs_sys::types::{ibv_wc_opcode as opcode, ibv_wc_status as status};

/// While no test has the clock, a retry timer expires after this many runs of the engine in which
/// nothing else happened.
pub(super) const IDLE_RUNS: u32 = 100;

/// The `rnr_retry` that means "for ever".
pub(super) const ENDLESS: u8 = 7;

/// Why the first send of a queue is retried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The peer had no receive.
    NotReady,
    /// No answer came.
    Lost,
    /// The message is still on its way.
    Late,
}

#[derive(Clone, Copy)]
pub(super) struct Wait {
    cause: Cause,
    /// Runs of the engine since the timer was started.
    idle: u32,
    /// Retries left; `None` if the timer never expires.
    left: Option<u8>,
    /// When the last retry is over, by the clock that a test has stopped.
    expires: Duration,
}

impl Wait {
    /// Without a timeout, a lost message is never sent again.
    fn is_hopeless(self) -> bool {
        self.cause == Cause::Lost && self.left.is_none()
    }

    /// When the send is given up, by the clock that a test has stopped.
    pub(super) fn expires(self) -> Option<Duration> {
        self.left.map(|_| self.expires)
    }

    /// The status of a send that is given up.
    fn failure(self) -> Option<status::Type> {
        match self.cause {
            Cause::NotReady => Some(status::IBV_WC_RNR_RETRY_EXC_ERR),
            Cause::Lost => Some(status::IBV_WC_RETRY_EXC_ERR),
            Cause::Late => None,
        }
    }
}

/// The result of the first send of a queue.
pub(super) enum Outcome {
    Done {
        length: u32,
    },
    Failed(status::Type),
    Wait(Cause),
    /// The send never starts, and blocks those behind it.
    Stuck,
}

/// The fate of a message on its way.
pub(super) enum Fate {
    Arrives,
    Lost,
    Twice,
    /// It arrives in this run or later.
    Late(u64),
    NotReady,
}

impl State {
    /// Works until nothing more can happen. Returns whether anything did.
    ///
    /// The order is fixed: round robin over the queue pairs by number, one work request at a time.
    pub(super) fn run(&mut self) -> bool {
        let mut worked = self.deliver_late();
        if self.active.is_empty() {
            return worked;
        }
        while self.round() {
            worked = true;
        }
        if !worked && self.clock.is_none() && self.give_up(Qp::tick) {
            worked = true;
            while self.round() {}
        }
        worked
    }

    /// The one place that decides whether a message arrives.
    pub(super) fn fate(&self, message: &Message) -> Fate {
        match message.doom {
            Doom::Lost | Doom::NoAnswer => Fate::Lost,
            Doom::Twice => Fate::Twice,
            Doom::Late(due) if due > self.faults.runs => Fate::Late(due),
            Doom::NotReady | Doom::NeverReady => Fate::NotReady,
            Doom::Late(_) | Doom::Undecided | Doom::None | Doom::Fails(_) => Fate::Arrives,
        }
    }

    /// Whether a retry timer runs that will expire, or a queue is to be flushed later.
    pub(super) fn timers_run(&self) -> bool {
        if self.active.is_empty() {
            return self.has_late();
        }
        // A clock that a test has stopped does not go on by runs.
        let is_going = self.clock.is_none();
        let ends = |wait: Wait| is_going && wait.left.is_some() || wait.cause == Cause::Late;
        let runs = |qp: &Qp| qp.wait.is_some_and(ends) || qp.flush_from > self.faults.runs;
        self.has_late() || self.active.iter().filter_map(|qp| self.qps.get(qp)).any(runs)
    }

    fn round(&mut self) -> bool {
        let mut worked = false;
        let mut next = self.active.first().copied();
        while let Some(qp) = next {
            worked |= self.turn(qp);
            next = self.active.range(qp + 1..).next().copied();
        }
        worked
    }

    fn turn(&mut self, number: u32) -> bool {
        let runs = self.faults.runs;
        let Some(qp) = self.qps.get_mut(&number) else {
            return self.rest(number);
        };
        if self.broken.contains(&qp.device) {
            return self.rest(number);
        }
        match qp.phase {
            Phase::Err if qp.flush_from > runs => return false,
            Phase::Rts | Phase::Sqd if qp.wait.is_some_and(Wait::is_hopeless) => {
                return self.rest(number);
            }
            Phase::Rts => {}
            // What had begun before continues; the rest is held.
            Phase::Sqd if qp.wait.is_some() => {}
            Phase::Sqd => {
                if std::mem::take(&mut qp.tells_drained) {
                    self.raise_qp(number, ibv_event_type::IBV_EVENT_SQ_DRAINED);
                }
                return self.rest(number);
            }
            Phase::Err => {
                return self.flush_sends(number) | self.flush_recvs(number) | self.rest(number);
            }
            Phase::Sqe => return self.flush_sends(number) | self.rest(number),
            _ => return self.rest(number),
        }
        if qp.shape.transport == Transport::Srd {
            return self.turn_srd(number);
        }
        let Some(mut wr) = qp.sends.pop_front() else {
            return self.rest(number);
        };
        let (transport, retries) = (qp.shape.transport, qp.attributes.retry_cnt > 0);
        let outcome = match (self.begin(number, &mut wr), transport) {
            (Err(()), _) => {
                self.put_back(number, wr);
                return true;
            }
            (Ok(Some(outcome)), _) => outcome,
            (Ok(None), Transport::Ud) => self.send_datagram(number, &wr),
            (Ok(None), _) => self.send_connected(number, &wr),
        };
        if wr.doom == Doom::NotReady || wr.doom == Doom::Lost && retries {
            // The next try succeeds.
            wr.doom = Doom::None;
        }
        match outcome {
            Outcome::Done { length } => {
                if let Some(qp) = self.qps.get_mut(&number) {
                    qp.wait = None;
                }
                self.complete_send(number, &wr, status::IBV_WC_SUCCESS, length);
                true
            }
            Outcome::Failed(cause) => {
                self.fail_send(number, &wr, cause);
                true
            }
            Outcome::Stuck => {
                self.put_back(number, wr);
                self.rest(number)
            }
            Outcome::Wait(cause) => self.wait(number, wr, cause),
        }
    }

    /// Marks a queue pair as idle until something is posted or its state changes.
    pub(super) fn rest(&mut self, qp: u32) -> bool {
        self.active.remove(&qp);
        false
    }

    pub(super) fn put_back(&mut self, qp: u32, wr: Send) {
        if let Some(qp) = self.qps.get_mut(&qp) {
            qp.sends.push_front(wr);
        }
    }

    /// The send is retried in every run. Idle runs use up its retries, or the clock's going on.
    pub(super) fn wait(&mut self, number: u32, wr: Send, cause: Cause) -> bool {
        let Some(qp) = self.qps.get(&number) else {
            return false;
        };
        if qp.wait.is_some_and(|wait| wait.cause == cause) {
            self.put_back(number, wr);
            return false;
        }
        let (left, span) = match cause {
            Cause::NotReady if qp.attributes.rnr_retry == 0 => {
                self.fail_send(number, &wr, status::IBV_WC_RNR_RETRY_EXC_ERR);
                return true;
            }
            Cause::NotReady if qp.attributes.rnr_retry == ENDLESS => (None, Duration::ZERO),
            Cause::NotReady => {
                let peer = self.qps.get(&qp.attributes.dest_qpn);
                (Some(qp.attributes.rnr_retry), until_rnr_is_over(qp, peer))
            }
            Cause::Lost if qp.attributes.timeout == 0 => (None, Duration::ZERO),
            Cause::Lost => (Some(qp.attributes.retry_cnt), until_retries_are_over(qp)),
            Cause::Late => (None, Duration::ZERO),
        };
        let expires = match self.clock {
            Some(now) if left.is_some() => now.saturating_add(span * self.habits.patience()),
            _ => span,
        };
        if let Some(qp) = self.qps.get_mut(&number) {
            qp.wait = Some(Wait { cause, idle: 0, left, expires });
        }
        self.put_back(number, wr);
        false
    }

    /// Fails the sends whose retries are used up. Returns whether there were any.
    pub(super) fn give_up(&mut self, is_over: impl Fn(&mut Qp) -> bool) -> bool {
        let mut gave_up = false;
        let mut next = self.active.first().copied();
        while let Some(number) = next {
            let over = self.qps.get_mut(&number).and_then(|qp| {
                let cause = is_over(qp).then(|| qp.wait?.failure())??;
                Some((qp.sends.pop_front()?, cause))
            });
            let over = over.and_then(|(wr, cause)| match self.goes_on(number, wr, cause) {
                Ok(()) => {
                    gave_up = true;
                    None
                }
                Err(wr) => Some((wr, cause)),
            });
            if let Some((wr, cause)) = over {
                self.fail_send(number, &wr, cause);
                gave_up = true;
            }
            next = self.active.range(number + 1..).next().copied();
        }
        gave_up
    }

    fn fail_send(&mut self, number: u32, wr: &Send, cause: status::Type) {
        self.complete_send(number, wr, cause, 0);
        let Some(qp) = self.qps.get(&number) else {
            return;
        };
        match qp.shape.transport {
            // The receive side of UC and UD continues (R8.16).
            Transport::Uc | Transport::Ud if qp.phase != Phase::Err => {
                self.enter(number, Phase::Sqe)
            }
            Transport::Srd => {}
            _ => self.enter(number, Phase::Err),
        }
    }

    fn flush_sends(&mut self, number: u32) -> bool {
        let mut worked = false;
        while let Some(wr) = self.qps.get_mut(&number).and_then(|qp| qp.sends.pop_front()) {
            self.complete_send(number, &wr, status::IBV_WC_WR_FLUSH_ERR, 0);
            worked = true;
        }
        worked
    }

    /// The receives of an SRQ do not belong to the queue pair, and stay (R7.7).
    fn flush_recvs(&mut self, number: u32) -> bool {
        let mut worked = false;
        while let Some(qp) = self.qps.get(&number) {
            if qp.shape.srq.is_some() {
                break;
            }
            let cq = qp.shape.recv_cq;
            let Some(taken) = self.take_receive(number) else { break };
            self.complete(cq, Cqe { status: status::IBV_WC_WR_FLUSH_ERR, ..taken }, false);
            worked = true;
        }
        worked
    }

    /// A send that is signaled or failed leaves a completion. Polling it frees the slots of all
    /// sends it stands for.
    pub(super) fn complete_send(
        &mut self,
        number: u32,
        wr: &Send,
        status: status::Type,
        byte_len: u32,
    ) {
        let Some(qp) = self.qps.get_mut(&number) else {
            return;
        };
        let success = status == status::IBV_WC_SUCCESS;
        if success && !wr.signaled {
            qp.silent += 1;
            return;
        }
        let entry = Cqe {
            wr_id: wr.wr_id,
            status,
            opcode: match (success, qp.shape.transport, wr.op) {
                (false, ..) => 0,
                // As EFA's provider has it.
                (true, Transport::Srd, Op::Read(_)) => opcode::IBV_WC_SEND,
                (true, ..) => wr.op.completes_as(),
            },
            byte_len,
            sent_imm: wr.extra.is_imm(),
            qp_num: number,
            frees: std::mem::take(&mut qp.silent) + 1,
            generation: qp.generation,
            ..Cqe::default()
        };
        let cq = qp.shape.send_cq;
        self.complete(cq, entry, false);
    }
}

impl Qp {
    /// An idle run. Whether the last retry of the first send has now expired.
    fn tick(&mut self) -> bool {
        let Some(wait) = &mut self.wait else { return false };
        let Some(left) = &mut wait.left else { return false };
        wait.idle += 1;
        if wait.idle < IDLE_RUNS {
            return false;
        }
        wait.idle = 0;
        match wait.cause {
            // A receiver that was not ready is asked once, and once more for each retry.
            Cause::NotReady => {
                *left = left.saturating_sub(1);
                *left == 0
            }
            // A lost message is sent once and again for each retry, and each sending has its
            // timeout.
            Cause::Lost => match left.checked_sub(1) {
                Some(less) => {
                    *left = less;
                    false
                }
                None => true,
            },
            Cause::Late => false,
        }
    }

    /// Whether the last retry of the first send is over at this time.
    pub(super) fn has_expired(&self, now: Duration) -> bool {
        self.wait.and_then(Wait::expires).is_some_and(|expires| expires <= now)
    }
}
