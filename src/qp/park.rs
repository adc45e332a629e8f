//! Dropping a queue pair: it is destroyed, or parked (`cq::parked`).

#![allow(unsafe_code)] // gives books to new owners

use std::sync::Arc;

use super::Core;
use crate::completion::booking::CqShared;
use crate::completion::parked::{Over, Parked, Rest};
use crate::counters::books::{Books, SEND};
use crate::device::ah_table::AhTable;
use crate::ledger::Ledger;
use crate::ledger::withheld::Withheld;
use crate::post::queue::{Queue, SendQueue};
use crate::profile::Profile;
use crate::srq::SrqCore;
use crate::sys::handle;
use crate::terms::state::QpState;

/// The parts that a parked queue pair needs until it is destroyed.
struct Dropped<P: Profile> {
    handle: handle::Qp,
    send: SendQueue<P>,
    ah: AhTable,
    books: Arc<Books>,
    send_cq: Arc<CqShared>,
    recv_cq: Arc<CqShared>,
    srq: Arc<SrqCore>,
}

impl<P: Profile> Core<P> {
    /// Parks the queue pair if destroying it might lose receives: then it is closed here.
    pub(super) fn park(&mut self) {
        let Some(srq) = self.srq.clone() else { return };
        if self.handle.is_closed() || self.is_drained || !srq.may_lose_receives() {
            return;
        }
        // SAFETY: the queue pair is live; libibverbs keeps the state there.
        let state = QpState::from_c(unsafe { (*self.qp()).state });
        let Some(from) = state.filter(|&state| state != QpState::Reset) else { return };
        if self.move_to(from, QpState::Err).is_err() {
            return;
        }
        if !self.end_dependents() {
            return;
        }
        let books = self.books.clone();
        let ledger = Ledger::open(&books, SEND, 0, Withheld::default());
        let empty = Queue::new(self.send.object, ledger);
        let rest = Dropped::<P> {
            handle: self.handle.take(),
            send: std::mem::replace(&mut self.send, empty),
            ah: std::mem::take(&mut self.ah),
            books,
            send_cq: self.send_cq.clone(),
            recv_cq: self.recv_cq.clone(),
            srq: srq.clone(),
        };
        let parked = Arc::new(Parked::new(Box::new(rest)));
        let mut over = Over::default();
        srq.ends.park(&parked, &self.books, &self.send_cq, &self.recv_cq, &mut over);
        over.send_home();
    }
}

impl<P: Profile> Rest for Dropped<P> {
    fn destroy(mut self: Box<Self>, over: &mut Over) {
        // (Twice, as any handle that was refused once is tried again when it is dropped.)
        if self.handle.close().or_else(|_| self.handle.close()).is_err() {
            // The device still has it: everything that it may use must stay.
            std::mem::forget(self);
            return;
        }
        let Dropped { handle, mut send, ah, books, send_cq, recv_cq, srq } = *self;
        let at_end = send.at_last(0);
        if send.ledger.has_lists() {
            books.note_lists();
        }
        books.end([send.posted_as_wr_ids(), 0]);
        let entries = send.release_all();
        at_end.tell(&books, &send_cq, &recv_cq, &mut over.quiet);
        drop((handle, send, ah));
        over.leftovers.push(Box::new((srq, send_cq, recv_cq, entries)));
    }
}
