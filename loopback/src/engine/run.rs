//! The order of work.

use crate::engine::sends::Outcome;
use crate::objects::cq::Cqe;
use crate::objects::faults::Late;
use crate::objects::qp::{Qp, Wait};
use crate::state::State;
use crate::words::transport::Transport;
use crate::words::wr::Doom;
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::ibv_wc_status as status;
use proverbs_sys::types::raw::ibv_event_type;

impl State {
    /// Works until nothing more can happen. Returns whether anything did.
    ///
    /// The order is fixed: round robin over the queue pairs by number, one work request at a time.
    pub(crate) fn run(&mut self) -> bool {
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
        let Some(qp) = self.qps.get_mut(&number) else { return self.rest(number) };
        if self.broken.contains(&qp.device) {
            return self.rest(number);
        }
        match qp.phase {
            Phase::Err if qp.flush_from > runs => return false,
            Phase::Rts | Phase::Sqd if qp.wait.is_some_and(Wait::is_hopeless) => {
                return self.rest(number);
            }
            Phase::Rts => {}
            // Sends that have begun continue; the others are held.
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
        let Some(mut wr) = qp.sends.pop_front() else { return self.rest(number) };
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

    /// Fails the sends that have no retries left. Returns whether there were any.
    pub(crate) fn give_up(&mut self, is_over: impl Fn(&mut Qp) -> bool) -> bool {
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

    /// Starts a run: delivers the delayed messages that are due, in the order in which they were
    /// sent.
    pub(crate) fn deliver_late(&mut self) -> bool {
        self.faults.runs += 1;
        if self.faults.late.is_empty() {
            return false;
        }
        let now = self.faults.runs;
        if self.faults.late.iter().all(|late| late.due > now) {
            return false;
        }
        let (due, later) =
            std::mem::take(&mut self.faults.late).into_iter().partition(|late| late.due <= now);
        self.faults.late = later;
        let due: Vec<Late> = due;
        for late in due {
            match late.datagram {
                Some((qkey, address, sgid)) => {
                    self.arrive(late.from, late.to, qkey, &address, sgid, &late.message);
                }
                None if self.listens(late.to, late.from) => {
                    // The UC sender is not notified whether it arrived.
                    let _ = self.respond(late.to, &late.message);
                }
                None => {}
            }
        }
        true
    }

    /// Whether a connected queue pair still accepts messages of `from`, which may be gone.
    fn listens(&self, to: u32, from: u32) -> bool {
        self.qps.get(&to).is_some_and(|qp| qp.receives() && qp.attributes.dest_qpn == from)
    }
}
