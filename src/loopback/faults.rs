//! What a fault does to the device, decided by the script.

use std::ffi::c_int;

use super::Verb;
use super::address::{Address, Gid};
use super::engine::Outcome;
use super::fabric::State;
use super::qp::{Phase, Transport};
use super::requester::Message;
use super::script::{Fault, Injected, Occasion, Script};
use super::wr::{Op, Send};
use crate::sys::types::{ibv_wc_status as status, raw::ibv_event_type};
use crate::wc::Direction;

/// What becomes of a work request: decided when the device begins with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Doom {
    Undecided,
    None,
    Lost,
    Twice,
    /// Not before this run.
    Late(u64),
    NotReady,
    NeverReady,
    NoAnswer,
    Fails(status::Type),
}

/// The faults of a fabric.
#[derive(Default)]
pub(super) struct Faults {
    script: Script,
    pub(super) injected: Injected,
    /// Messages that were delayed, in the order in which they were sent.
    late: Vec<Late>,
    /// Runs of the engine so far.
    pub(super) runs: u64,
}

struct Late {
    due: u64,
    from: u32,
    to: u32,
    message: Message,
    /// Of a datagram: the Q_Key and the addresses.
    datagram: Option<(u32, Address, Gid)>,
}

/// Why a post stops.
pub(super) enum Stop {
    /// At this work request, and it is told.
    Refused(c_int),
    /// It is not told where; `taken` is whether what follows is taken all the same.
    Unknown { errno: c_int, taken: bool },
}

impl From<c_int> for Stop {
    fn from(errno: c_int) -> Stop {
        Stop::Refused(errno)
    }
}

impl State {
    pub(super) fn inject(&mut self, script: Script) {
        self.faults.script = script;
    }

    fn decide(&mut self, occasion: Occasion) -> Option<Fault> {
        let fault = self.faults.script.decide(occasion)?;
        self.faults.injected.count(fault);
        Some(fault)
    }

    /// The device begins with a work request, or goes on with it. Gives its outcome if that is
    /// decided already; `Err` if the queue pair has gone to ERR before it.
    pub(super) fn begin(&mut self, number: u32, wr: &mut Send) -> Result<Option<Outcome>, ()> {
        if wr.doom == Doom::Undecided {
            wr.doom = Doom::None;
            let Some(qp) = self.qps.get(&number) else {
                return Ok(None);
            };
            let uses_receive = match wr.op {
                Op::Send | Op::Datagram { .. } => true,
                Op::Write(_) => wr.imm.is_some(),
                _ => false,
            };
            let transport = qp.shape.transport;
            match self.decide(Occasion::Begin { qp: number, transport, uses_receive }) {
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

    /// One work request of a post is about to be accepted.
    pub(super) fn post_fault(&mut self, qp: Option<u32>, direction: Direction) -> Result<(), Stop> {
        let transport = qp.and_then(|qp| Some(self.qps.get(&qp)?.shape.transport));
        match self.decide(Occasion::Post { qp, transport, direction }) {
            Some(Fault::Refuse { errno }) => Err(Stop::Refused(errno)),
            Some(Fault::OutcomeUnknown { errno, taken }) => Err(Stop::Unknown { errno, taken }),
            _ => Ok(()),
        }
    }

    /// A queue pair has come to ERR.
    pub(super) fn flush_fault(&mut self, number: u32, transport: Transport) {
        let occasion = Occasion::Flush { qp: number, transport };
        if let Some(Fault::FlushLate { runs }) = self.decide(occasion) {
            let from = self.faults.runs + u64::from(runs);
            if let Some(qp) = self.qps.get_mut(&number) {
                qp.flush_from = from;
            }
        }
    }

    /// An object is about to be destroyed; a queue pair by its number.
    pub(super) fn destroy_fault(&mut self, qp: Option<u32>) -> Verb {
        let transport = qp.and_then(|qp| Some(self.qps.get(&qp)?.shape.transport));
        match self.decide(Occasion::Destroy { qp, transport }) {
            Some(_) => Err(libc::EBUSY),
            None => Ok(()),
        }
    }

    /// Whether an event comes without a completion.
    pub(super) fn is_spurious(&mut self) -> bool {
        self.decide(Occasion::Arm).is_some()
    }

    /// What goes wrong with this poll.
    pub(super) fn poll_fault(&mut self) -> Option<Fault> {
        self.decide(Occasion::Poll)
    }

    /// Keeps a message back until its run.
    pub(super) fn delay(
        &mut self,
        due: u64,
        from: u32,
        to: u32,
        message: &Message,
        datagram: Option<(u32, Address, Gid)>,
    ) {
        self.faults.late.push(Late { due, from, to, message: message.clone(), datagram });
    }

    pub(super) fn has_late(&self) -> bool {
        !self.faults.late.is_empty()
    }

    /// A new run: the delayed messages that are due arrive, in the order in which they were sent.
    pub(super) fn deliver_late(&mut self) -> bool {
        self.faults.runs += 1;
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
                    // Nobody is told on UC what became of it.
                    let _ = self.respond(late.to, &late.message);
                }
                None => {}
            }
        }
        true
    }

    /// Whether a connected queue pair still listens to `from`, which may be gone.
    fn listens(&self, to: u32, from: u32) -> bool {
        self.qps.get(&to).is_some_and(|qp| qp.phase.receives() && qp.attributes.dest_qpn == from)
    }
}
