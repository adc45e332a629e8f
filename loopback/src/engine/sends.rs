//! The head of a send queue: its outcome, and how long it waits.

use std::time::Duration;

use crate::objects::qp::{Cause, ENDLESS, Wait, until_retries_are_over, until_rnr_is_over};
use crate::state::State;
use crate::words::script::{Fault, Occasion};
use crate::words::transport::Transport;
use crate::words::wr::{Doom, Message, Op, Send};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::ibv_wc_status as status;
use proverbs_sys::types::raw::ibv_event_type;

/// The result of the first send of a queue.
pub(crate) enum Outcome {
    Done {
        length: u32,
    },
    Failed(status::Type),
    Wait(Cause),
    /// The send never starts, and blocks those behind it.
    Stuck,
}

/// The fate of a message in transit.
pub(crate) enum Fate {
    Arrives,
    Lost,
    Twice,
    /// The message arrives in the run of the fabric with this number, or in a later one.
    Late(u64),
    NotReady,
}

impl State {
    /// The one place that decides whether a message arrives.
    pub(crate) fn fate(&self, message: &Message) -> Fate {
        match message.doom {
            Doom::Lost | Doom::NoAnswer => Fate::Lost,
            Doom::Twice => Fate::Twice,
            Doom::Late(due) if due > self.faults.runs => Fate::Late(due),
            Doom::NotReady | Doom::NeverReady => Fate::NotReady,
            Doom::Late(_) | Doom::Undecided | Doom::None | Doom::Fails(_) => Fate::Arrives,
        }
    }

    /// Starts or continues a work request. Returns its outcome if that is decided already; `Err` if
    /// the queue pair enters ERR first.
    pub(crate) fn begin(&mut self, number: u32, wr: &mut Send) -> Result<Option<Outcome>, ()> {
        if wr.doom == Doom::Undecided {
            wr.doom = Doom::None;
            let Some(qp) = self.qps.get(&number) else { return Ok(None) };
            let uses_receive = match wr.op {
                Op::Send | Op::Datagram { .. } => true,
                Op::Write(_) => wr.extra.is_imm(),
                _ => false,
            };
            let transport = qp.shape.transport;
            let lid = match wr.op {
                Op::Datagram { ah, .. } => self.ahs.get(&ah).map(|ah| ah.address.dlid),
                _ => qp.attributes.path.map(|path| path.dlid),
            };
            let lid = lid.unwrap_or(0);
            match self.decide(Occasion::Begin { qp: number, transport, uses_receive, lid }) {
                Some(Fault::Lose) => wr.doom = Doom::Lost,
                Some(Fault::Duplicate) => wr.doom = Doom::Twice,
                Some(Fault::Delay { runs }) => {
                    wr.doom = Doom::Late(self.faults.runs + u64::from(runs));
                }
                Some(Fault::NotReady) => wr.doom = Doom::NotReady,
                Some(Fault::NeverReady) => wr.doom = Doom::NeverReady,
                Some(Fault::NoAnswer) => wr.doom = Doom::NoAnswer,
                Some(Fault::Fail(status)) => wr.doom = Doom::Fails(status.to_c()),
                Some(Fault::ToError) => {
                    self.enter(number, Phase::Err);
                    self.raise_qp(number, ibv_event_type::IBV_EVENT_QP_FATAL);
                    return Err(());
                }
                _ => {}
            }
        }
        Ok(match wr.doom {
            Doom::Fails(status) => Some(Outcome::Failed(status)),
            _ => None,
        })
    }

    /// Marks a queue pair as idle until something is posted or its state changes.
    pub(crate) fn rest(&mut self, qp: u32) -> bool {
        self.active.remove(&qp);
        false
    }

    pub(crate) fn put_back(&mut self, qp: u32, wr: Send) {
        if let Some(qp) = self.qps.get_mut(&qp) {
            qp.sends.push_front(wr);
        }
    }

    /// Puts the send back, so that each run of the engine retries it. Idle runs use up its retries;
    /// if the program controls the clock, the clock does.
    pub(crate) fn wait(&mut self, number: u32, wr: Send, cause: Cause) -> bool {
        let Some(qp) = self.qps.get(&number) else { return false };
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

    pub(crate) fn fail_send(&mut self, number: u32, wr: &Send, cause: status::Type) {
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
}
