//! Shared receive queues.

use std::collections::VecDeque;

use crate::objects::Object;
use crate::objects::domains::OfXrc;
use crate::words::wr::Recv;
use proverbs_sys::types::ibv_srq;

#[derive(Default)]
pub(crate) struct Srq {
    pub(crate) pd: u32,
    /// Set for XRC.
    pub(crate) of_xrc: Option<OfXrc>,
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    /// The limit below which an event is raised; 0 if not armed.
    pub(crate) limit: u32,
    pub(crate) queue: VecDeque<Recv>,
    /// Slots in use: posted, or on some devices done but not polled.
    pub(crate) slots: u32,
    /// The C object, by which events name the queue.
    pub(crate) object: Option<Object<ibv_srq>>,
}

impl Srq {
    pub(crate) fn has_room(&self) -> bool {
        self.slots < self.max_wr
    }

    pub(crate) fn push(&mut self, wr: Recv) {
        self.queue.push_back(wr);
        self.slots += 1;
    }

    /// Frees a slot.
    pub(crate) fn free(&mut self) {
        self.slots = self.slots.saturating_sub(1);
    }

    pub(crate) fn posted(&self) -> impl Iterator<Item = &Recv> {
        self.queue.iter()
    }

    pub(crate) fn front(&self) -> Option<&Recv> {
        self.queue.front()
    }

    /// Takes the next receive, and returns whether the queue fell to its limit.
    pub(crate) fn pop(&mut self) -> (Option<Recv>, bool) {
        let wr = self.queue.pop_front();
        let reached = (self.queue.len() as u64) < u64::from(self.limit);
        if reached {
            self.limit = 0;
        }
        (wr, reached)
    }
}
