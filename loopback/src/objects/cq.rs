//! Completion queues.

use std::collections::VecDeque;
use std::time::Duration;

use crate::objects::Object;
use crate::words::wr::Extra;
use proverbs_sys::types::{ibv_cq, ibv_wc_status};

#[derive(Default)]
pub(crate) struct Cq {
    pub(crate) device: u32,
    pub(crate) channel: Option<u32>,
    pub(crate) capacity: usize,
    pub(crate) entries: VecDeque<Cqe>,
    pub(crate) armed: Option<Arm>,
    /// A completion did not fit. From then on the content of the queue is undefined.
    pub(crate) overrun: bool,
    /// Extended polling has started and has not ended.
    pub(crate) started: bool,
    /// The C object, by which events name the queue.
    pub(crate) object: Option<Object<ibv_cq>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arm {
    Solicited,
    Any,
}

/// The receive queue in which a completion occupies a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The queue pair's own queue.
    Own,
    /// A shared receive queue.
    Shared(u32),
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Cqe {
    pub(crate) wr_id: u64,
    pub(crate) status: ibv_wc_status::Type,
    pub(crate) opcode: u32,
    pub(crate) byte_len: u32,
    pub(crate) extra: Extra,
    /// Whether this completes a send with an immediate.
    pub(crate) sent_imm: bool,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    /// Whether this completes a receive on UD.
    pub(crate) datagram: bool,
    pub(crate) grh: bool,
    pub(crate) sl: u8,
    pub(crate) slid: u16,
    /// The LID of the port that it was addressed to.
    pub(crate) path_bits: u8,
    /// The receive queue in which polling this entry frees a slot.
    pub(crate) receive_slot: Option<Slot>,
    /// The number of send slots that polling this entry frees, and the QP's count of resets.
    pub(crate) frees: u32,
    pub(crate) generation: u32,
    /// Its sequence number among the completions of the fabric.
    pub(crate) at: u64,
    /// The time, by the clock.
    pub(crate) clock: Duration,
}
