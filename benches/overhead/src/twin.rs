//! The environment of the C twins and of raw Rust: `benches/c/env.h`, field by field.

use std::ffi::c_void;
use std::ptr;

use rdma_sys::{ibv_ah, ibv_cq, ibv_qp, ibv_sge, ibv_srq};

pub const MOST: usize = 32;
pub const PAYLOAD: usize = 16;

/// `struct buf`.
#[repr(C, align(64))]
pub struct TwinBuf {
    pub sge: ibv_sge,
    pub capacity: u32,
    pub pd: u32,
    queue: *mut c_void,
    next: *mut c_void,
    in_flight: u32,
}

/// Address and rkey.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct TwinRemote {
    pub addr: u64,
    pub rkey: u32,
}

/// `struct queue`.
#[repr(C)]
pub struct TwinQueue {
    slots: *mut *mut c_void,
    mask: u32,
    head: u32,
    tail: u32,
    cap: u32,
    id: u64,
    credit: u32,
    seen: u32,
    completed: [u32; 2],
    pd: u32,
    poisoned: u32,
}

/// `struct env`. It lives as long as the process.
#[repr(C)]
pub struct Twin {
    pub qp: *mut ibv_qp,
    pub cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub ah: *mut ibv_ah,
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
    pub n: u32,
    pub payload: [u8; PAYLOAD],
    pub pieces: [ibv_sge; MOST],
    pub ids: [u64; MOST],
    pub bufs: [*mut TwinBuf; MOST],
    pub send: TwinQueue,
    pub recv: TwinQueue,
}

impl TwinQueue {
    fn new(id: u64, depth: u32) -> Self {
        let len = (depth + 1).next_power_of_two();
        let slots: &'static mut [*mut c_void] = vec![ptr::null_mut(); len as usize].leak();
        TwinQueue {
            slots: slots.as_mut_ptr(),
            mask: len - 1,
            head: 0,
            tail: 0,
            cap: depth,
            id: 1 << 63 | id << 32,
            credit: depth,
            seen: 0,
            completed: [0; 2],
            pd: 1,
            poisoned: 0,
        }
    }
}

impl Twin {
    /// With the gather elements of the caller's books, and buffers.
    pub fn new(pieces: [ibv_sge; MOST], bufs: [ibv_sge; MOST], depth: u32) -> &'static mut Twin {
        let bufs = bufs.map(|sge| {
            let (capacity, next) = (sge.length, ptr::null_mut());
            let queue = ptr::null_mut();
            let buf = TwinBuf { sge, capacity, pd: 1, queue, next, in_flight: 0 };
            ptr::from_mut(Box::leak(Box::new(buf)))
        });
        Box::leak(Box::new(Twin {
            qp: ptr::null_mut(),
            cq: ptr::null_mut(),
            srq: ptr::null_mut(),
            ah: ptr::null_mut(),
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
            n: 4,
            payload: crate::world::BYTES,
            pieces,
            ids: std::array::from_fn(|i| i as u64 + 100),
            bufs,
            send: TwinQueue::new(1, depth),
            recv: TwinQueue::new(2, depth),
        }))
    }
}
