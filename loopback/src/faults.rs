//! The effects of faults on the device, as decided by the script.

use std::ffi::c_int;

use super::Verb;
use super::address::{Address, Gid};
use super::engine::Outcome;
use super::fabric::State;
use super::injected::Injected;
use super::qp::{Phase, Transport};
use super::requester::Message;
use super::script::{Fault, Occasion, Script};
use super::wr::{Op, Send};
use proverbs_sys::terms::wc::Direction;
use proverbs_sys::types::ibv_wc_status as status;
use proverbs_sys::types::raw::ibv_event_type;

/// The fate of a work request, decided when the device starts it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Doom {
    Undecided,
    None,
    Lost,
    Twice,
    /// It arrives in this run or later.
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
    /// Delayed messages, in the order in which they were sent.
    late: Vec<Late>,
    /// Runs of the engine so far.
    pub(super) runs: u64,
}

struct Late {
    due: u64,
    from: u32,
    to: u32,
    message: Message,
    /// The Q_Key and the addresses of a datagram.
    datagram: Option<(u32, Address, Gid)>,
}

/// Why a post stops.
pub(super) enum Stop {
    /// Refused at this work request, which is reported.
    Refused(c_int),
    /// At an unreported work request; `taken` says whether it and the rest are accepted
    /// nevertheless.
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

    /// The device starts a work request, or continues one. Returns its outcome if that is decided
    /// already; `Err` if the queue pair enters ERR before it.
    pub(super) fn begin(&mut self, number: u32, wr: &mut Send) -> Result<Option<Outcome>, ()> {
        if wr.doom == Doom::Undecided {
            wr.doom = Doom::None;
            let Some(qp) = self.qps.get(&number) else {
                return Ok(None);
            };
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

    /// A work request of a post is about to be accepted.
    pub(super) fn post_fault(&mut self, qp: Option<u32>, direction: Direction) -> Result<(), Stop> {
        let transport = qp.and_then(|qp| Some(self.qps.get(&qp)?.shape.transport));
        match self.decide(Occasion::Post { qp, transport, direction }) {
            Some(Fault::Refuse { errno }) => Err(Stop::Refused(errno)),
            Some(Fault::OutcomeUnknown { errno, taken }) => Err(Stop::Unknown { errno, taken }),
            _ => Ok(()),
        }
    }

    /// A queue pair has entered ERR.
    pub(super) fn flush_fault(&mut self, number: u32, transport: Transport) {
        let occasion = Occasion::Flush { qp: number, transport };
        if let Some(Fault::FlushLate { runs }) = self.decide(occasion) {
            let from = self.faults.runs + u64::from(runs);
            if let Some(qp) = self.qps.get_mut(&number) {
                qp.flush_from = from;
            }
        }
    }

    /// An object is about to be destroyed; `qp` is its number if it is a queue pair.
    pub(super) fn destroy_fault(&mut self, qp: Option<u32>) -> Verb {
        let transport = qp.and_then(|qp| Some(self.qps.get(&qp)?.shape.transport));
        match self.decide(Occasion::Destroy { qp, transport }) {
            Some(_) => Err(libc::EBUSY),
            None => Ok(()),
        }
    }

    /// A region is about to be deregistered: whether the device gives up, and returns 0 all the
    /// same.
    pub(super) fn gives_up_fault(&mut self) -> bool {
        self.decide(Occasion::Dereg).is_some()
    }

    /// A region is about to be re-registered: C's code of the failure.
    pub(super) fn rereg_fault(&mut self) -> Option<c_int> {
        match self.decide(Occasion::Rereg) {
            Some(Fault::Rereg { code }) => Some(code),
            _ => None,
        }
    }

    /// Whether an event is raised without a completion.
    pub(super) fn is_spurious(&mut self) -> bool {
        self.decide(Occasion::Arm).is_some()
    }

    /// The fault of this poll.
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

    /// Starts a run: delayed messages that are due arrive, in the order in which they were sent.
    pub(super) fn deliver_late(&mut self) -> bool {
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
                    // On UC the sender does not learn whether it arrived.
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
