//! Two paths to a peer, on InfiniBand: the alternate path is armed by messages between two queue
//! pairs that have one, and taken when the first is broken or the program says so.

use crate::objects::qp::Qp;
use crate::state::State;
use crate::words::Verb;
use crate::words::address::Address;
use crate::words::attributes::{Alternate, Attributes, Migration};
use crate::words::transport::Transport;
use crate::words::wr::{Doom, Send};
use proverbs_sys::types::ibv_wc_status as status;
use proverbs_sys::types::raw::{ibv_event_type, ibv_mig_state};

/// What a program asks for: to arm the path that it gave, or to take it.
pub(crate) fn asked_of(now: &Attributes, asked: ibv_mig_state::Type) -> Verb<Migration> {
    match (asked, now.migration) {
        (ibv_mig_state::IBV_MIG_MIGRATED, Migration::Migrated | Migration::Armed) => {
            Ok(Migration::Migrated)
        }
        (ibv_mig_state::IBV_MIG_REARM, Migration::Migrated) if now.alternate.is_some() => {
            Ok(Migration::Rearm)
        }
        // Messages alone arm it.
        _ => Err(libc::EINVAL),
    }
}

impl State {
    /// A path may be given while no other is armed.
    pub(crate) fn check_alternate(&self, qp: &Qp, alternate: &Alternate) -> Verb {
        let fits = alternate.port == 1 && alternate.pkey_index == 0 && alternate.timeout <= 31;
        if !self.can_migrate() || !fits || qp.attributes.migration != Migration::Migrated {
            return Err(libc::EINVAL);
        }
        self.check_address(qp.device, &alternate.path)
    }

    /// The queue pair takes its alternate path, which is the only one now.
    pub(crate) fn migrate(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        let now = &mut qp.attributes;
        if let Some(taken) = now.alternate.take() {
            now.path = Some(taken.path);
            (now.port, now.pkey_index, now.timeout) = (taken.port, taken.pkey_index, taken.timeout);
        }
        (now.migration, now.told_refusal) = (Migration::Migrated, false);
        self.raise_qp(number, ibv_event_type::IBV_EVENT_PATH_MIG);
    }

    /// A send whose retries are over goes on by the path that is armed. It is given back if there
    /// is none.
    pub(crate) fn goes_on(
        &mut self,
        number: u32,
        mut wr: Send,
        cause: status::Type,
    ) -> Result<(), Send> {
        let armed = self.qps.get(&number).is_some_and(|qp| {
            qp.attributes.migration == Migration::Armed && qp.shape.transport == Transport::Rc
        });
        if !armed || cause != status::IBV_WC_RETRY_EXC_ERR {
            return Err(wr);
        }
        self.migrate(number);
        // It may still be lost there.
        wr.doom = Doom::Undecided;
        if let Some(qp) = self.qps.get_mut(&number) {
            qp.wait = None;
            qp.sends.push_front(wr);
        }
        Ok(())
    }

    /// By which way a queue pair would follow its peer.
    pub(crate) fn follows<'a>(&self, qp: &'a Qp) -> Option<&'a Address> {
        let armed = qp.attributes.migration == Migration::Armed;
        qp.attributes.alternate.as_ref().filter(|_| armed).map(|alternate| &alternate.path)
    }

    /// A message arrives: whoever gets it by its other path takes that, and two that are to be
    /// armed now are.
    pub(crate) fn follow(&mut self, from: u32, to: u32) {
        let (Some(sender), Some(receiver)) = (self.qps.get(&from), self.qps.get(&to)) else {
            return;
        };
        let Some(path) = &sender.attributes.path else { return };
        let is_by = |back: &Address| self.is_sender(sender.device, path, back);
        if !receiver.attributes.path.as_ref().is_some_and(is_by) {
            return self.migrate(to);
        }
        let two = [sender, receiver].map(|qp| qp.attributes.migration);
        let is_answered = sender.shape.transport == Transport::Rc;
        if two.contains(&Migration::Migrated) {
            return;
        }
        for (number, is_told) in [(from, is_answered), (to, true)] {
            if let Some(qp) = self.qps.get_mut(&number).filter(|_| is_told) {
                qp.attributes.migration = Migration::Armed;
            }
        }
    }

    /// A message comes by a way that its receiver does not know: if its sender has migrated, the
    /// receiver could not follow, and says so once.
    pub(crate) fn refuse_migrated(&mut self, from: u32) {
        let Some(qp) = self.qps.get(&from) else { return };
        let to = qp.attributes.dest_qpn;
        let path = qp.attributes.path;
        let Some(peer) = self.qps.get(&to) else { return };
        let comes = path.is_some_and(|path| self.device_at(&path) == Some(peer.device));
        if !comes || !peer.receives() || peer.attributes.dest_qpn != from {
            return;
        }
        let has_other = peer.attributes.alternate.is_some();
        if let Some(peer) = self.qps.get_mut(&to).filter(|_| has_other) {
            if !std::mem::replace(&mut peer.attributes.told_refusal, true) {
                self.raise_qp(to, ibv_event_type::IBV_EVENT_PATH_MIG_ERR);
            }
        }
    }
}
