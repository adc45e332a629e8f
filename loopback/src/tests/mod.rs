//! The raw device, driven through its control table and its ops, as the crate drives it.
//!
//! Work requests and attributes are written into uninitialised memory, so Miri finds every field
//! that the device reads without permission.
#![allow(unsafe_code)] // The tests speak C.
#![allow(clippy::undocumented_unsafe_blocks)] // All objects are live.

mod connected;
mod datagram;
mod events;
mod faults;
mod lanes;
mod personalities;
mod polling;
mod posting;
mod send_wr;
mod sessions;
mod states;
mod strict;

use std::mem::MaybeUninit;
use std::ptr;

use send_wr::*;

use super::{Fabric, LOOPBACK};
use proverbs_sys::control::Holds;
use proverbs_sys::types::*;

const ALL_RIGHTS: u32 = 15;
const MEMORY: usize = 8192;

/// Runs an ignored test in its own process, which may abort. The variable names the call to make.
/// Returns whether the process succeeded, and its output.
#[cfg(debug_assertions)]
fn ended_by(test: &str, (variable, call): (&str, &str)) -> (bool, String) {
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    let test = format!("tests::{test}");
    let program = program.args(["--exact", &test, "--ignored", "--nocapture"]).env(variable, call);
    let ended = program.output().unwrap();
    (ended.status.success(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

/// One end: a device with one queue pair, one completion queue, and one region of zeroes.
struct End {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    srq: *mut ibv_srq,
    qp: *mut ibv_qp,
    mr: *mut ibv_mr,
    memory: *mut u64,
}

/// The parameters that a test may change.
#[derive(Clone, Copy)]
struct Wish {
    qp_type: ibv_qp_type::Type,
    depth: u32,
    cqe: i32,
    srq: bool,
    rights: u32,
    qp_rights: u32,
    initiator: u8,
    rnr_retry: u8,
    timeout: u8,
    sq_psn: u32,
}

const RC: Wish = Wish {
    qp_type: ibv_qp_type::IBV_QPT_RC,
    depth: 8,
    cqe: 64,
    srq: false,
    rights: ALL_RIGHTS,
    qp_rights: ALL_RIGHTS,
    initiator: 1,
    rnr_retry: 1,
    timeout: 14,
    sq_psn: 7,
};
const UC: Wish = Wish { qp_type: ibv_qp_type::IBV_QPT_UC, ..RC };
const UD: Wish = Wish { qp_type: ibv_qp_type::IBV_QPT_UD, ..RC };

const QKEY: u32 = 0x1111;

impl End {
    fn new(fabric: &Fabric, wish: &Wish) -> End {
        let context = fabric.open(None).as_ptr();
        let pd = unsafe { (LOOPBACK.alloc_pd)(context) }.unwrap().as_ptr();
        let cq = unsafe { (LOOPBACK.create_cq)(context, wish.cqe, ptr::null_mut(), 0) };
        let cq = cq.unwrap().as_ptr();
        let memory = Box::into_raw(vec![0u64; MEMORY / 8].into_boxed_slice()).cast::<u64>();
        let mr = unsafe { (LOOPBACK.reg_mr)(pd, memory.cast(), MEMORY, wish.rights, Holds::Open) };
        let mr = mr.unwrap().as_ptr();
        let mut srq = ptr::null_mut();
        if wish.srq {
            let attr = ibv_srq_attr { max_wr: wish.depth, max_sge: 2, ..zeroed() };
            let mut init = ibv_srq_init_attr { attr, ..zeroed() };
            srq = unsafe { (LOOPBACK.create_srq)(pd, &mut init) }.unwrap().as_ptr();
        }
        let mut init = ibv_qp_init_attr {
            send_cq: cq,
            recv_cq: cq,
            srq,
            cap: ibv_qp_cap {
                max_send_wr: wish.depth,
                max_recv_wr: wish.depth,
                max_send_sge: 2,
                max_recv_sge: 2,
                max_inline_data: 64,
                ..zeroed()
            },
            qp_type: wish.qp_type,
            ..zeroed()
        };
        let qp = unsafe { (LOOPBACK.create_qp)(pd, &mut init) }.unwrap().as_ptr();
        End { context, pd, cq, srq, qp, mr, memory }
    }

    fn number(&self) -> u32 {
        unsafe { (*self.qp).qp_num }
    }

    /// The address of this end's region at `offset`.
    fn at(&self, offset: usize) -> u64 {
        self.memory.expose_provenance() as u64 + offset as u64
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        unsafe { ptr::copy(bytes.as_ptr(), self.memory.cast::<u8>().add(offset), bytes.len()) }
    }

    fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        (offset..offset + length)
            .map(|at| unsafe { self.memory.cast::<u8>().add(at).read() })
            .collect()
    }

    fn sge(&self, offset: usize, length: u32) -> ibv_sge {
        ibv_sge { addr: self.at(offset), length, lkey: unsafe { (*self.mr).lkey } }
    }

    fn gid(&self, index: i32) -> ibv_gid {
        unsafe { (LOOPBACK.query_gid)(self.context, 1, index) }.unwrap()
    }

    fn address_of(&self, to: &End, gid: u8) -> ibv_ah_attr {
        ibv_ah_attr {
            grh: ibv_global_route {
                dgid: to.gid(gid.into()),
                sgid_index: gid,
                hop_limit: 3,
                ..zeroed()
            },
            is_global: 1,
            port_num: 1,
            ..zeroed()
        }
    }

    fn modify(&self, mask: u32, set: impl FnOnce(*mut ibv_qp_attr)) -> i32 {
        let mut attr = MaybeUninit::<ibv_qp_attr>::uninit();
        set(attr.as_mut_ptr());
        let modified = unsafe { (LOOPBACK.modify_qp)(self.qp, attr.as_mut_ptr(), mask as i32) };
        modified.err().unwrap_or(0)
    }

    fn go(&self, state: ibv_qp_state::Type) -> i32 {
        self.modify(1, |attr| unsafe { (*attr).qp_state = state })
    }

    fn init(&self, wish: &Wish) -> i32 {
        let ud = wish.qp_type == ibv_qp_type::IBV_QPT_UD;
        let mask = 1 | 16 | 32 | if ud { 64 } else { 8 };
        self.modify(mask, |attr| unsafe {
            (*attr).qp_state = ibv_qp_state::IBV_QPS_INIT;
            (*attr).pkey_index = 0;
            (*attr).port_num = 1;
            (*attr).qkey = QKEY;
            (*attr).qp_access_flags = wish.qp_rights;
        })
    }

    fn rtr(&self, wish: &Wish, to: &End) -> i32 {
        let mask = match wish.qp_type {
            ibv_qp_type::IBV_QPT_RC => 1 | 128 | 256 | 4096 | 32768 | 131072 | 1 << 20,
            ibv_qp_type::IBV_QPT_UC => 1 | 128 | 256 | 4096 | 1 << 20,
            _ => 1,
        };
        self.modify(mask, |attr| unsafe {
            (*attr).qp_state = ibv_qp_state::IBV_QPS_RTR;
            (*attr).ah_attr = self.address_of(to, 1);
            (*attr).path_mtu = ibv_mtu::IBV_MTU_1024;
            (*attr).dest_qp_num = to.number();
            (*attr).rq_psn = 7;
            (*attr).max_dest_rd_atomic = 1;
            (*attr).min_rnr_timer = 12;
        })
    }

    fn rts(&self, wish: &Wish) -> i32 {
        let rc = wish.qp_type == ibv_qp_type::IBV_QPT_RC;
        let mask = 1 | 1 << 16 | if rc { 512 | 1024 | 2048 | 8192 } else { 0 };
        self.modify(mask, |attr| unsafe {
            (*attr).qp_state = ibv_qp_state::IBV_QPS_RTS;
            (*attr).timeout = wish.timeout;
            (*attr).retry_cnt = 1;
            (*attr).rnr_retry = wish.rnr_retry;
            (*attr).sq_psn = wish.sq_psn;
            (*attr).max_rd_atomic = wish.initiator;
        })
    }

    fn state(&self) -> ibv_qp_state::Type {
        unsafe { (LOOPBACK.query_qp)(self.qp, 1) }.unwrap().0.qp_state
    }

    fn post_send(&self, wr: &SendWr) -> i32 {
        self.post_sends(std::slice::from_ref(wr)).0
    }

    /// Posts a list. Returns the errno, and the index of `bad_wr`.
    fn post_sends(&self, list: &[SendWr]) -> (i32, Option<usize>) {
        let mut sges: Vec<_> = list.iter().map(|wr| wr.sges.clone()).collect();
        let mut wrs: Vec<_> = list.iter().map(|_| MaybeUninit::<ibv_send_wr>::uninit()).collect();
        let first = wrs.as_mut_ptr().cast::<ibv_send_wr>();
        for (i, wr) in list.iter().enumerate() {
            let last = i + 1 == list.len();
            unsafe { wr.emit(first.add(i), &mut sges[i]) };
            unsafe { (*first.add(i)).next = if last { ptr::null_mut() } else { first.add(i + 1) } };
        }
        let mut bad = ptr::null_mut();
        let post = unsafe { (*self.context).ops.post_send }.unwrap();
        let code = unsafe { post(self.qp, first, &mut bad) };
        (code, (!bad.is_null()).then(|| unsafe { bad.offset_from(first) } as usize))
    }

    fn post_recv(&self, wr_id: u64, sges: &[ibv_sge]) -> i32 {
        let mut sges = sges.to_vec();
        let mut wr = ibv_recv_wr {
            wr_id,
            next: ptr::null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as i32,
        };
        let mut bad = ptr::null_mut();
        let ops = unsafe { &raw const (*self.context).ops };
        if self.srq.is_null() {
            unsafe { (*ops).post_recv.unwrap()(self.qp, &mut wr, &mut bad) }
        } else {
            unsafe { (*ops).post_srq_recv.unwrap()(self.srq, &mut wr, &mut bad) }
        }
    }

    /// One poll of up to 16 completions.
    fn poll(&self) -> Vec<ibv_wc> {
        self.poll_raw().into_iter().map(|wc| unsafe { wc.assume_init() }).collect()
    }

    /// Like `poll`, for a device that writes only some fields.
    fn poll_raw(&self) -> Vec<MaybeUninit<ibv_wc>> {
        let mut wcs = [const { MaybeUninit::<ibv_wc>::uninit() }; 16];
        let poll = unsafe { (*self.context).ops.poll_cq }.unwrap();
        let count = unsafe { poll(self.cq, 16, wcs.as_mut_ptr().cast()) };
        assert!(count >= 0);
        wcs.into_iter().take(count as usize).collect()
    }

    /// The next completion; makes idle runs until there is one.
    fn wait(&self) -> ibv_wc {
        for _ in 0..1000 {
            if let Some(wc) = self.poll().pop() {
                return wc;
            }
        }
        panic!("no completion");
    }

    /// wr_id and status of the completions of one poll.
    fn polled(&self) -> Vec<(u64, ibv_wc_status::Type)> {
        self.poll().iter().map(|wc| (wc.wr_id, wc.status)).collect()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        unsafe {
            if !self.qp.is_null() {
                assert_eq!((LOOPBACK.destroy_qp)(self.qp), Ok(()));
            }
            if !self.srq.is_null() {
                assert_eq!((LOOPBACK.destroy_srq)(self.srq), Ok(()));
            }
            if !self.mr.is_null() {
                assert_eq!((LOOPBACK.dereg_mr)(self.mr), Ok(()));
            }
            assert_eq!((LOOPBACK.destroy_cq)(self.cq), Ok(()));
            assert_eq!((LOOPBACK.dealloc_pd)(self.pd), Ok(()));
            assert_eq!((LOOPBACK.close_device)(self.context), Ok(()));
            let memory = ptr::slice_from_raw_parts_mut(self.memory, MEMORY / 8);
            drop(Box::from_raw(memory));
        }
    }
}

/// Two ends in RTS, connected to each other unless they are UD.
fn pair(wish: &Wish) -> (End, End) {
    pair_on(&Fabric::new(), wish)
}

fn pair_on(fabric: &Fabric, wish: &Wish) -> (End, End) {
    let (a, b) = (End::new(fabric, wish), End::new(fabric, wish));
    for (end, peer) in [(&a, &b), (&b, &a)] {
        assert_eq!((end.init(wish), end.rtr(wish, peer)), (0, 0));
        // The second end answers, and expects the first end's packet number.
        assert_eq!(end.rts(wish), 0);
    }
    (a, b)
}
