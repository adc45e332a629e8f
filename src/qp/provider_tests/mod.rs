//! The fields of a work request that reach the provider: each field that a program requested, and
//! no others.

#![allow(unsafe_code)] // replaces functions of a provider

mod binds;
mod flags;
mod late;
mod refusals;

use std::cell::{Cell, RefCell};
use std::ffi::c_int;

use super::*;
use crate::loopback::Fabric;
use crate::memory::Raw;
use crate::post::{PostErrorKind, RawPostError};
use crate::prelude::*;
use crate::qp::Drained;
use crate::sys::types::{ibv_cq, ibv_recv_wr, ibv_send_flags as Flag, ibv_send_wr, ibv_wc};

crate::profile! { Chosen { signaling: Selective } }
crate::profile! { Loose { signaling: Selective, max_send_sge: 2, entry: Raw } }

const FENCE: u32 = Flag::IBV_SEND_FENCE.0;
const SIGNALED: u32 = Flag::IBV_SEND_SIGNALED.0;
const SOLICITED: u32 = Flag::IBV_SEND_SOLICITED.0;
const INLINE: u32 = Flag::IBV_SEND_INLINE.0;

thread_local! {
    static POSTED: RefCell<Vec<(u32, i32)>> = const { RefCell::new(Vec::new()) };
}

/// The flags of the work requests posted since the last call.
fn flags() -> Vec<u32> {
    POSTED.take().into_iter().map(|(flags, _)| flags).collect()
}

/// How a provider answers the next posts.
#[derive(Clone, Copy)]
enum Answer {
    /// It passes them to the device.
    Device,
    /// It rejects them from the work request of this index on.
    From(usize),
    /// It fails without `bad_wr`.
    Silent,
    /// It rejects all of them, with this return value and this errno.
    Code(c_int, c_int),
}

/// Returns a value, and sets the thread's errno.
fn coded(code: c_int, errno: c_int) -> c_int {
    // SAFETY: the location is this thread's own errno, always writable.
    unsafe { *libc::__errno_location() = errno };
    code
}

type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
type PostRecv = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

thread_local! {
    static ANSWER: Cell<Answer> = const { Cell::new(Answer::Device) };
    static OWN: Cell<(Option<PostSend>, Option<PostRecv>)> = const { Cell::new((None, None)) };
}

unsafe extern "C" fn answering_sends(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller passes a list of work requests.
    let wr = unsafe { &*first };
    POSTED.with_borrow_mut(|posted| posted.push((wr.send_flags, wr.num_sge)));
    match ANSWER.get() {
        // SAFETY: the arguments come from the caller, which keeps the contract of the device's
        // function.
        Answer::Device => OWN.get().0.map_or(0, |post| unsafe { post(qp, first, bad) }),
        Answer::Silent => libc::EINVAL,
        Answer::Code(code, errno) => {
            // SAFETY: the caller passes a place to write to.
            unsafe { *bad = first };
            coded(code, errno)
        }
        Answer::From(index) => {
            // SAFETY: the list has this number of work requests.
            let refused = (0..index).fold(first, |wr, _| unsafe { (*wr).next });
            // SAFETY: the caller passes a place to write to.
            unsafe { *bad = refused };
            libc::ENOMEM
        }
    }
}

unsafe extern "C" fn answering_receives(
    qp: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    match ANSWER.get() {
        // SAFETY: the arguments come from the caller, which keeps the contract of the device's
        // function.
        Answer::Device => OWN.get().1.map_or(0, |post| unsafe { post(qp, first, bad) }),
        Answer::Silent => libc::EINVAL,
        Answer::Code(code, errno) => {
            // SAFETY: the caller passes a place to write to.
            unsafe { *bad = first };
            coded(code, errno)
        }
        Answer::From(index) => {
            // SAFETY: the list has this number of work requests.
            let refused = (0..index).fold(first, |wr, _| unsafe { (*wr).next });
            // SAFETY: the caller passes a place to write to.
            unsafe { *bad = refused };
            libc::ENOMEM
        }
    }
}

/// A queue pair that is its own peer, on a device with chosen answers.
struct Alone<P: Profile> {
    qp: QueuePair<Rc, Rts, P>,
    cq: CompletionQueue<P::Entry>,
    pd: ProtectionDomain,
    pool: Pool,
}

impl<P: Profile<Receive = OwnRq, Initiator = Reads, Threads = AnyThread>> Alone<P> {
    fn new() -> Self {
        let context = Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(64).unwrap();
        let pool = pd.create_pool(16, 64).unwrap();
        let qp = pd.create_qp::<Rc, P>(&cq, &cq, Depth { send: 8, recv: 8 }).unwrap();
        let (number, psn) = (Qpn::try_from(qp.qp_num()).unwrap(), Psn::try_from(1).unwrap());
        let address = AddressVector::roce(1, context.query_gid(1, 1).unwrap(), 1);
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        let qp = qp.modify(init).unwrap().modify(RcRtr::new(address, number, psn)).unwrap();
        let qp = qp.modify(RcRts::new(psn, ReadDepth::ONE)).unwrap();
        // SAFETY: the queue pair is alive.
        let context = unsafe { (*qp.core.qp()).context };
        // SAFETY: its context is, too, and nothing else uses it.
        let ops = unsafe { &mut (*context).ops };
        OWN.set((
            ops.post_send.replace(answering_sends),
            ops.post_recv.replace(answering_receives),
        ));
        ANSWER.set(Answer::Device);
        POSTED.take();
        Alone { qp, cq, pd, pool }
    }

    fn bufs(&self, n: u8) -> Vec<Buf> {
        let bufs = (0..n).map(|i| {
            let mut buf = self.pool.take().unwrap();
            buf.copy_from(&[i]).unwrap();
            buf
        });
        bufs.collect()
    }
}

/// The labels of the returned buffers.
fn labels(bufs: impl Iterator<Item = Buf>) -> Vec<u8> {
    bufs.map(|buf| buf[0]).collect()
}
