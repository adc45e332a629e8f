//! Dropping a queue pair: it is destroyed, or parked (`cq::parked`).

#![allow(unsafe_code)] // gives books to new owners

use std::sync::Arc;

use super::ah_table::AhTable;
use super::modify::Attr;
use super::{Core, SendQueue};
use crate::cq::{AtEnd, CqShared, Over, Parked, Rest};
use crate::in_flight::{Books, SendBooks};
use crate::profile::Profile;
use crate::srq::SrqCore;
use crate::state::QpState;
use crate::sys::handle;
use crate::sys::types::ibv_qp_state;

/// What a parked queue pair needs until it is destroyed.
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
    /// Parks the queue pair if receives might be lost by destroying it; whether it did.
    pub(super) fn park(&mut self) -> bool {
        let Some(srq) = self.srq.clone() else { return false };
        if self.handle.is_closed() || self.is_drained || !srq.may_lose_receives() {
            return false;
        }
        // SAFETY: the queue pair is alive; libibverbs keeps the state there.
        let is_reset = unsafe { (*self.qp).state } == ibv_qp_state::IBV_QPS_RESET;
        if is_reset || self.modify(&mut Attr::new(QpState::Error)).is_err() {
            return false;
        }
        self.detach_all();
        let books = self.books.clone();
        // SAFETY: `self` and what is parked both own the books.
        let empty = unsafe { SendBooks::new(Arc::as_ptr(&books), 0) };
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
        if !Arc::ptr_eq(&self.send_cq, &self.recv_cq) {
            self.send_cq.knows_parked(&parked, &self.books);
        }
        let is_parked = srq.knows_parked(&parked) && self.recv_cq.park(&parked, &self.books);
        if !is_parked {
            let mut over = Over::default();
            parked.end(&mut over);
            over.send_home();
        }
        true
    }
}

impl<P: Profile> Rest for Dropped<P> {
    fn destroy(mut self: Box<Self>, over: &mut Over) {
        if self.handle.close().is_err() {
            // The device still has it: everything that it may use must stay.
            std::mem::forget(self);
            return;
        }
        let Dropped { handle, mut send, ah, books, send_cq, recv_cq, srq } = *self;
        let at_end = AtEnd::of::<P::Entry, _>(&send, 0);
        books.end([send.posted_as_wr_ids(), 0]);
        let entries = send.release_all();
        at_end.tell(&books, &send_cq, &recv_cq, &mut over.quiet);
        drop((handle, ah));
        over.leftovers.push(Box::new((srq, send_cq, recv_cq, entries)));
    }
}
