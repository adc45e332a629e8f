//! Automatic path migration on InfiniBand. Messages between two queue pairs arm their alternate
//! paths. A queue pair moves to its alternate path when the primary path breaks or when the program
//! requests it.

use crate::objects::qp::Qp;
use crate::state::State;
use crate::words::Verb;
use crate::words::address::Address;
use crate::words::attributes::{Alternate, Attributes, Migration};
use crate::words::transport::Transport;
use crate::words::wr::{Doom, Send};
use proverbs_sys::types::ibv_wc_status as status;
use proverbs_sys::types::raw::{ibv_event_type, ibv_mig_state};

/// The request of a program: to arm its alternate path, or to take it.
pub(crate) fn asked_of(now: &Attributes, asked: ibv_mig_state::Type) -> Verb<Migration> {
    match (asked, now.migration) {
        (ibv_mig_state::IBV_MIG_MIGRATED, Migration::Migrated | Migration::Armed) => {
            Ok(Migration::Migrated)
        }
        (ibv_mig_state::IBV_MIG_REARM, Migration::Migrated) if now.alternate.is_some() => {
            Ok(Migration::Rearm)
        }
        // Only messages arm it.
        _ => Err(libc::EINVAL),
    }
}

impl State {
    /// An alternate path may be set while none is armed.
    pub(crate) fn check_alternate(&self, qp: &Qp, alternate: &Alternate) -> Verb {
        let fits = alternate.port == 1 && alternate.pkey_index == 0 && alternate.timeout <= 31;
        if !self.can_migrate() || !fits || qp.attributes.migration != Migration::Migrated {
            return Err(libc::EINVAL);
        }
        self.check_address(qp.device, &alternate.path)
    }

    /// Moves the queue pair to its alternate path, which is then its only one.
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

    /// Moves a send that has no retries left to the armed path. Returns it if there is none.
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
        // It may still be lost on that path.
        wr.doom = Doom::Undecided;
        if let Some(qp) = self.qps.get_mut(&number) {
            qp.wait = None;
            qp.sends.push_front(wr);
        }
        Ok(())
    }

    /// The path by which a queue pair would follow its peer.
    pub(crate) fn follows<'a>(&self, qp: &'a Qp) -> Option<&'a Address> {
        let armed = qp.attributes.migration == Migration::Armed;
        qp.attributes.alternate.as_ref().filter(|_| armed).map(|alternate| &alternate.path)
    }

    /// Handles an arriving message. A receiver that gets it on its alternate path migrates, and two
    /// queue pairs that are both ready become armed.
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

    /// Handles a message on a path that its receiver does not have. If its sender has migrated, the
    /// receiver could not follow, and raises an event once.
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
