//! Checks that the objects of outstanding work requests stay.

use crate::objects::memory::{Backing, LOCAL_TAG, number_of};
use crate::state::State;
use crate::words::contract::broken;
use crate::words::wr::{Op, Payload, Recv, Send, Sge};

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
    pub(crate) fn check_unused_memory(&self, mr: u32) {
        let lkey = mr << 8 | LOCAL_TAG;
        let by_qps = self.qps.values().any(|qp| {
            qp.sends.iter().any(|wr| wr.names_memory(lkey)) || receives(qp.recvs.iter(), lkey)
        });
        if by_qps || self.srqs.values().any(|srq| receives(srq.posted(), lkey)) {
            broken(
                "a region is deregistered or changed while an outstanding work request names it",
            );
        }
    }

    /// An address handle that a work request names must stay (R5.3).
    pub(crate) fn check_unused_address(&self, ah: u32) {
        if self.qps.values().any(|qp| qp.sends.iter().any(|wr| wr.names_address(ah))) {
            broken("an address handle is destroyed while an outstanding work request names it");
        }
    }

    /// If all sends are signaled, the data of a READ or an atomic must go to memory that has bytes
    /// at the elements' addresses: mlx5 copies it there when it is polled.
    pub(crate) fn check_read_to(&self, qp: u32, list: &[Sge]) {
        let has_bytes = |sge: &Sge| {
            let mr = number_of(sge.lkey, LOCAL_TAG).and_then(|number| self.mrs.get(&number));
            !mr.is_some_and(|mr| matches!(mr.backing, Backing::Map(_) | Backing::Device(_)))
        };
        let copies = self.qps.get(&qp).is_some_and(|qp| qp.shape.sig_all);
        if copies && !list.iter().all(has_bytes) {
            broken(
                "a READ into memory without bytes on a queue pair that signals all sends \
                (R18.18)",
            );
        }
    }
}
