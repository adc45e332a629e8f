//! Assertions on what only a broken crate could do to a device.
//!
//! A program's mistakes are answered with the errno of libibverbs' providers. The mistakes in this
//! file cannot be made through the safe interface: with debug assertions they panic, without them
//! they are answered as libibverbs does.

use std::collections::BTreeSet;

use super::fabric::{Shared, State};
use super::memory::{Backing, LOCAL_TAG, number_of};
use super::wr::{Op, Payload, Recv, Send, Sge};

/// Reports that the caller of a verb broke its contract.
#[cold]
#[track_caller]
pub(super) fn broken(contract: &str) {
    if cfg!(debug_assertions) {
        panic!("the loopback device was used as no correct program uses one: {contract}");
    }
}

/// Verbs of the data path that only one caller at a time may use, as the crate's types ensure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    Poll,
    Send,
    Receive,
    ReceiveShared,
}

/// The calls in progress, with the numbers of their objects.
#[derive(Default)]
pub(super) struct Calls(BTreeSet<(Call, u32)>);

/// A call in progress.
pub(super) struct Begun<'a> {
    shared: &'a Shared,
    call: (Call, u32),
}

impl Shared {
    /// Notes a call until it ends. Another of the same kind on the same object must not begin
    /// meanwhile.
    pub(super) fn begin(&self, call: Call, number: u32) -> Option<Begun<'_>> {
        if !cfg!(debug_assertions) {
            return None;
        }
        let call = (call, number);
        if !self.calls().0.insert(call) {
            broken("two calls of one object overlap");
        }
        Some(Begun { shared: self, call })
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.shared.calls().0.remove(&self.call);
    }
}

fn names(list: &[Sge], lkey: u32) -> bool {
    list.iter().any(|sge| sge.length > 0 && sge.lkey == lkey)
}

fn receives<'a>(mut all: impl Iterator<Item = &'a Recv>, lkey: u32) -> bool {
    all.any(|recv| names(&recv.list, lkey))
}

impl Send {
    fn names_memory(&self, lkey: u32) -> bool {
        matches!(&self.payload, Payload::List(list) if names(list, lkey))
    }

    fn names_address(&self, number: u32) -> bool {
        matches!(self.op, Op::Datagram { ah, .. } if ah == number)
            || self.to.is_some_and(|to| to.ah == number)
    }
}

impl State {
    /// Memory that a work request names must stay registered (R6.10).
    pub(super) fn check_unused_memory(&self, mr: u32) {
        let lkey = mr << 8 | LOCAL_TAG;
        let by_qps = self.qps.values().any(|qp| {
            qp.sends.iter().any(|wr| wr.names_memory(lkey)) || receives(qp.recvs.iter(), lkey)
        });
        if by_qps || self.srqs.values().any(|srq| receives(srq.posted(), lkey)) {
            broken("a region is deregistered or changed that an outstanding work request names");
        }
    }

    /// An address handle that a work request names must stay (R5.3).
    pub(super) fn check_unused_address(&self, ah: u32) {
        if self.qps.values().any(|qp| qp.sends.iter().any(|wr| wr.names_address(ah))) {
            broken("an address handle is destroyed that an outstanding work request names");
        }
    }

    /// What a READ or an atomic of the queue pair brings goes to memory that has bytes at the
    /// elements' addresses, if all sends are signaled: mlx5 copies it there when it is polled.
    pub(super) fn check_read_to(&self, qp: u32, list: &[Sge]) {
        let has_bytes = |sge: &Sge| {
            let mr = number_of(sge.lkey, LOCAL_TAG).and_then(|number| self.mrs.get(&number));
            !mr.is_some_and(|mr| matches!(mr.backing, Backing::Map(_) | Backing::Device(_)))
        };
        let copies = self.qps.get(&qp).is_some_and(|qp| qp.shape.sig_all);
        if copies && !list.iter().all(has_bytes) {
            broken("a READ into memory without bytes, where all sends are signaled (R18.18)");
        }
    }
}
