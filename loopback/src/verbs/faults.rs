//! Asks the script for a fault on each occasion.

use crate::objects::faults::{Late, Stop};
use crate::state::State;
use crate::words::Verb;
use crate::words::address::{Address, Gid};
use crate::words::script::{Fault, Occasion, Script};
use crate::words::transport::Transport;
use crate::words::wr::Message;
use proverbs_sys::terms::wc::Direction;

impl State {
    pub(crate) fn inject(&mut self, script: Script) {
        self.faults.script = script;
    }

    pub(crate) fn decide(&mut self, occasion: Occasion) -> Option<Fault> {
        let fault = self.faults.script.decide(occasion)?;
        self.faults.injected.count(fault);
        Some(fault)
    }

    /// A work request of a post is about to be accepted.
    pub(crate) fn post_fault(&mut self, qp: Option<u32>, direction: Direction) -> Result<(), Stop> {
        let transport = qp.and_then(|qp| Some(self.qps.get(&qp)?.shape.transport));
        match self.decide(Occasion::Post { qp, transport, direction }) {
            Some(Fault::Refuse { errno }) => Err(Stop::Refused(errno)),
            Some(Fault::OutcomeUnknown { errno, taken }) => Err(Stop::Unknown { errno, taken }),
            _ => Ok(()),
        }
    }

    /// Decides whether `count` sends are accepted as a whole; `Err` if they are not. The inner
    /// result may be an errno although the sends were accepted, since librxe does that (R15.12).
    pub(crate) fn whole_fault(&mut self, qp: u32, count: usize) -> Verb<Verb> {
        let mut unknown = None;
        for _ in 0..count {
            match self.post_fault(Some(qp), Direction::Send) {
                Ok(()) => {}
                Err(Stop::Refused(errno)) => return Err(errno),
                Err(Stop::Unknown { errno, taken }) => unknown = Some((errno, taken)),
            }
        }
        match unknown {
            None => Ok(Ok(())),
            Some((errno, true)) if self.habits.is_rxe() => Ok(Err(errno)),
            Some((errno, _)) => Err(errno),
        }
    }

    /// A queue pair has entered ERR.
    pub(crate) fn flush_fault(&mut self, number: u32, transport: Transport) {
        let occasion = Occasion::Flush { qp: number, transport };
        if let Some(Fault::FlushLate { runs }) = self.decide(occasion) {
            let from = self.faults.runs + u64::from(runs);
            if let Some(qp) = self.qps.get_mut(&number) {
                qp.flush_from = from;
            }
        }
    }

    /// An object is about to be destroyed; `qp` is its number if it is a queue pair.
    pub(crate) fn destroy_fault(&mut self, qp: Option<u32>) -> Verb {
        let transport = qp.and_then(|qp| Some(self.qps.get(&qp)?.shape.transport));
        let fault = self.decide(Occasion::Destroy { qp, transport });
        fault.map_or(Ok(()), |_| Err(libc::EBUSY))
    }

    /// Delays a message until its run.
    pub(crate) fn delay(
        &mut self,
        due: u64,
        from: u32,
        to: u32,
        message: &Message,
        datagram: Option<(u32, Address, Gid)>,
    ) {
        self.faults.late.push(Late { due, from, to, message: message.clone(), datagram });
    }
}
