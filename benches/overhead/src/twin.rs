//! The environment of the C twins and of raw Rust: `benches/c/env.h`, field by field.

use std::ffi::c_void;
use std::ptr;

use proverbs::prelude::*;
use proverbs::raw::AsRaw;
use proverbs::transport::Transport;

use crate::c::{ibv_ah, ibv_cq, ibv_qp, ibv_sge, ibv_srq};
use crate::own::LONG;

pub const MOST: usize = 32;
pub const PAYLOAD: usize = 16;

/// `struct buf`.
#[repr(C, align(64))]
pub struct TwinBuf {
    pub sge: ibv_sge,
    pub capacity: u32,
    pub pd: u32,
    counter: *mut u32,
    next: *mut TwinBuf,
    state: u32,
    lines: u32,
    whole: ibv_sge,
}

impl TwinBuf {
    /// A buffer that lives as long as the process.
    pub fn leaked(sge: ibv_sge) -> *mut TwinBuf {
        let (capacity, next) = (sge.length, ptr::null_mut());
        let counter = ptr::null_mut();
        let (pd, state, lines, whole) = (1, NOBODY, 0, sge);
        let buf = TwinBuf { sge, capacity, pd, counter, next, state, lines, whole };
        ptr::from_mut(Box::leak(Box::new(buf)))
    }
}

/// Address, rkey and length.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct TwinRemote {
    pub addr: u64,
    pub rkey: u32,
    pub len: u32,
}

/// `struct end`.
#[repr(C)]
pub struct TwinEnd {
    qp: *mut ibv_qp,
    credit: [u32; 2],
    pd: u32,
    cap: u32,
}

impl TwinEnd {
    pub fn of<T: Transport, P: Profile>(qp: &QueuePair<T, Rts, P>) -> Self {
        let cap = qp.depth().send;
        TwinEnd { qp: qp.as_raw().cast(), credit: [cap; 2], pd: 1, cap }
    }
}

/// The state of a buffer that no queue has used: type tags never have this bit.
const NOBODY: u32 = 2;

/// `struct queue`.
#[repr(C)]
pub struct TwinQueue {
    slots: *mut *mut c_void,
    at: *mut *mut c_void,
    id: u32,
    tail: u32,
    old_id: u32,
    head: u32,
    mask: u32,
    cap: u32,
    room: u32,
    credit: u32,
    seen: u32,
    type_tag: u32,
    pd: u32,
    longest: u32,
    poisoned: u32,
    completed: TwinCounter,
}

/// `completed` of `struct queue`.
#[repr(C, align(64))]
struct TwinCounter(u32);

/// `struct ah_name`.
#[repr(C)]
pub struct TwinAh {
    pub ah: *mut ibv_ah,
    index: u32,
    key: u32,
}

/// `struct env`. It lives as long as the process.
#[repr(C)]
pub struct Twin {
    pub qp: *mut ibv_qp,
    pub cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub to_ah: TwinAh,
    ah_keys: *const u32,
    ah_mask: u32,
    pub to: TwinRemote,
    pub from: TwinRemote,
    pub cell: TwinRemote,
    pub imm_data: u32,
    pub compare: u64,
    pub swap: u64,
    pub add: u64,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    pub wr_id: u64,
    pub counts: [u32; 3],
    pub payload: [u8; PAYLOAD],
    pub pieces: [ibv_sge; MOST],
    pub ids: [u64; MOST],
    pub bufs: [*mut TwinBuf; MOST],
    pub send: TwinQueue,
    pub recv: TwinQueue,
    /// A second queue pair.
    pub other: *mut ibv_qp,
    /// A queue pair of depth 1.
    pub shallow: *mut ibv_qp,
    /// The destinations of datagrams.
    pub peers: [*mut ibv_ah; 64],
    /// Two more queue pairs, one of them with another completion queue.
    pub more: [*mut ibv_qp; 2],
    pub answers: *mut ibv_qp,
    pub answered: *mut ibv_cq,
    /// The length and the offset of a copy.
    lengths: [u64; 2],
    /// The offset of a piece in its region.
    offset: u64,
    bytes: [u8; LONG],
    /// The buffer of an arena.
    pub in_arena: *mut TwinBuf,
    /// A queue that is polled for extra fields.
    pub timed: *mut c_void,
    /// The queue pairs of `best.c`.
    pub ends: [TwinEnd; 2],
    /// A region that is sent in pieces.
    pub region: *mut TwinBuf,
}

impl TwinQueue {
    fn new(id: u32, depth: u32) -> Self {
        // Like the crate's ring: a list that does not fit does not overwrite anything.
        let len = (depth + 1 + 128).next_power_of_two();
        let slots: &'static mut [*mut c_void] = vec![ptr::null_mut(); 2 * len as usize].leak();
        let slots = slots.as_mut_ptr();
        // Like the wr_ids of a ring.
        let id = id << 3 | 3;
        TwinQueue {
            slots,
            at: slots,
            id,
            tail: 0,
            old_id: id,
            head: 0,
            mask: len - 1,
            cap: depth,
            room: depth,
            credit: depth,
            seen: 0,
            // `type_tag` and `pd` have no bits in common.
            type_tag: id >> 3 << 3,
            pd: 1,
            longest: 1 << 30,
            poisoned: 0,
            completed: TwinCounter(0),
        }
    }
}

impl Twin {
    /// Created with the gather elements and the buffers.
    pub fn new(pieces: [ibv_sge; MOST], bufs: [ibv_sge; MOST], depth: u32) -> &'static mut Twin {
        let bufs = bufs.map(TwinBuf::leaked);
        for pair in bufs[..16].windows(2) {
            // SAFETY: the buffers were just leaked, and nothing else uses them.
            unsafe { (*pair[0]).next = pair[1] };
        }
        Box::leak(Box::new(Twin {
            qp: ptr::null_mut(),
            cq: ptr::null_mut(),
            srq: ptr::null_mut(),
            // The last of a few address handles.
            to_ah: TwinAh { ah: ptr::null_mut(), index: 3, key: 4 },
            ah_keys: (1..=64).collect::<Vec<u32>>().leak().as_ptr(),
            ah_mask: 63,
            to: TwinRemote::default(),
            from: TwinRemote::default(),
            cell: TwinRemote::default(),
            imm_data: crate::world::IMM,
            compare: crate::world::COMPARE,
            swap: crate::world::SWAP,
            add: crate::world::ADD,
            remote_qpn: crate::world::QPN,
            remote_qkey: crate::world::QKEY,
            wr_id: 7,
            counts: crate::world::COUNTS,
            payload: crate::world::BYTES,
            pieces,
            ids: std::array::from_fn(|i| i as u64 + 100),
            bufs,
            send: TwinQueue::new(1, depth),
            recv: TwinQueue::new(2, depth),
            other: ptr::null_mut(),
            shallow: ptr::null_mut(),
            peers: [ptr::null_mut(); 64],
            more: [ptr::null_mut(); 2],
            answers: ptr::null_mut(),
            answered: ptr::null_mut(),
            lengths: [64, LONG as u64],
            offset: 0,
            bytes: [0; LONG],
            in_arena: ptr::null_mut(),
            timed: ptr::null_mut(),
            ends: [0, 1].map(|_| TwinEnd { qp: ptr::null_mut(), credit: [0; 2], pd: 1, cap: 0 }),
            region: ptr::null_mut(),
        }))
    }
}
