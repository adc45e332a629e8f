//! A program that is half C: it uses raw verbs calls and this crate on one context.

#![allow(unsafe_code)] // the C half

use crate::provider_tests::device_with;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::device::Gid;
use crate::loopback::Fabric;
use crate::loopback::LOOPBACK;
use crate::prelude::*;
use crate::state::QpState;
use crate::sys::control::Holds;
use crate::sys::types::{
    ibv_qp_attr, ibv_qp_attr_mask as Mask, ibv_qp_cap, ibv_qp_init_attr, zeroed,
};

/// If READs may target memory without bytes for the processor, the device is not asked to signal
/// all.
/// Proves R18.18.
#[test]
fn a_queue_pair_whose_reads_may_go_anywhere_signals_each() {
    profile! { Any { entry: AnyBuf } }
    let ended = Arc::new(AtomicU32::new(0));
    let context = Fabric::new().open_device();
    let (pd, theirs) = pd_of_c(&context, &ended);
    let cq = context.create_cq::<AnyBuf>(64).unwrap();
    let asked = |sq_sig_all| ibv_qp_init_attr { sq_sig_all, ..asked(cq.as_raw(), cq.as_raw()) };
    // SAFETY: the domain and the completion queue are alive, and nothing is outstanding.
    unsafe {
        let qp = (LOOPBACK.create_qp)(theirs.as_ptr(), &mut asked(1)).unwrap();
        let error = pd.qp_from_raw::<Rc, Reset, Any>(qp, &cq, &cq, DEPTH).unwrap_err();
        let text = "ibv_query_qp: the queue pair has sq_sig_all 1: create it with 0, each send of \
                    this profile sets IBV_SEND_SIGNALED (R18.18)";
        assert_eq!(error.to_string(), text);
        assert_eq!((LOOPBACK.destroy_qp)(qp.as_ptr()), Ok(()));
        let qp = (LOOPBACK.create_qp)(theirs.as_ptr(), &mut asked(0)).unwrap();
        drop(pd.qp_from_raw::<Rc, Reset, Any>(qp, &cq, &cq, DEPTH).unwrap());
    }
}

/// A domain of C code, which deallocates it when nothing uses it any more.
struct Theirs {
    pd: NonNull<ibv_pd>,
    ended: Arc<AtomicU32>,
}

// SAFETY: verbs may be called from any thread.
unsafe impl Send for Theirs {}
// SAFETY: it is only dropped.
unsafe impl Sync for Theirs {}

impl Drop for Theirs {
    fn drop(&mut self) {
        // SAFETY: `alloc_pd` returned it, and nothing uses it any more.
        let deallocated = unsafe { (LOOPBACK.dealloc_pd)(self.pd.as_ptr()) };
        assert_eq!(deallocated, Ok(()), "objects of it exist");
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

fn pd_of_c(context: &Context, ended: &Arc<AtomicU32>) -> (ProtectionDomain, NonNull<ibv_pd>) {
    // SAFETY: the context is alive, and the domain lives until `Theirs` is dropped.
    unsafe {
        let pd = (LOOPBACK.alloc_pd)(context.as_raw()).unwrap();
        let keep = Theirs { pd, ended: ended.clone() };
        (ProtectionDomain::from_raw(context, pd, keep).unwrap(), pd)
    }
}

fn asked(send_cq: *mut ibv_cq, recv_cq: *mut ibv_cq) -> ibv_qp_init_attr {
    let cap = ibv_qp_cap {
        max_send_wr: 9,
        max_recv_wr: 8,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 64,
        ..zeroed()
    };
    let qp_type = <Rc as crate::transport::Transport>::QP_TYPE;
    ibv_qp_init_attr { send_cq, recv_cq, cap, qp_type, sq_sig_all: 1, ..zeroed() }
}

const DEPTH: Depth = Depth { send: 8, recv: 8 };

/// Proves R18.24.
#[test]
fn a_domain_of_cs_is_used_by_both_and_ends_once() {
    let ended = Arc::new(AtomicU32::new(0));
    let context = Fabric::new().open_device();
    let (pd, theirs) = pd_of_c(&context, &ended);
    assert_eq!(pd.as_raw(), theirs.as_ptr());
    let pool = pd.create_pool(2, 64).unwrap();
    let buf = pool.take().unwrap();
    // C code registers memory in it.
    let mut bytes = [0u8; 64];
    // SAFETY: the domain is alive, and the bytes live until the region is gone.
    unsafe {
        let mr =
            (LOOPBACK.reg_mr)(theirs.as_ptr(), bytes.as_mut_ptr(), 64, 1, Holds::Open).unwrap();
        assert_eq!((*mr.as_ptr()).pd, theirs.as_ptr());
        assert_eq!((LOOPBACK.dereg_mr)(mr.as_ptr()), Ok(()));
    }
    drop((pd, pool));
    assert_eq!(ended.load(Ordering::Relaxed), 0, "a buffer of it exists");
    drop(buf);
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    // `destroy` returns it too.
    let (pd, _) = pd_of_c(&context, &ended);
    let refused = pd.clone().destroy().unwrap_err();
    drop(refused);
    pd.destroy().unwrap();
    assert_eq!(ended.load(Ordering::Relaxed), 2);
    let elsewhere = Fabric::new().open_device();
    let other = elsewhere.alloc_pd().unwrap();
    let handle = NonNull::new(other.as_raw()).unwrap();
    // SAFETY: the domain is alive.
    let error = unsafe { ProtectionDomain::from_raw(&context, handle, ()) }.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ContextMismatch { .. }), "{error}");
    context.destroy().unwrap();
}

/// The value that keeps a domain alive is dropped before the one that keeps its context, whichever
/// object is dropped first.
#[test]
fn keepers_go_from_the_leaves_on() {
    struct Note(&'static str, Arc<std::sync::Mutex<Vec<&'static str>>>);
    impl Drop for Note {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    for domain_first in [false, true] {
        let notes = Arc::default();
        let theirs = Fabric::new().open_device();
        // SAFETY: the domain lives until it is deallocated below, and its context lives longer.
        let (context, pd, raw) = unsafe {
            let context = NonNull::new(theirs.as_raw()).unwrap();
            let context = Context::from_raw(context, Note("context", Arc::clone(&notes)));
            let raw = (LOOPBACK.alloc_pd)(theirs.as_raw()).unwrap();
            let keep = Note("domain", notes.clone());
            (context.clone(), ProtectionDomain::from_raw(&context, raw, keep).unwrap(), raw)
        };
        if domain_first {
            drop(pd);
            drop(context);
        } else {
            drop(context);
            assert!(notes.lock().unwrap().is_empty());
            drop(pd);
        }
        assert_eq!(*notes.lock().unwrap(), ["domain", "context"]);
        // SAFETY: it is alive, and nothing uses it any more.
        assert_eq!(unsafe { (LOOPBACK.dealloc_pd)(raw.as_ptr()) }, Ok(()));
    }
}

/// C code modifies a queue pair with these attributes.
fn modify(qp: NonNull<ibv_qp>, mut attr: ibv_qp_attr, to: QpState, mask: &[Mask]) {
    attr.qp_state = to.to_c();
    let mask = mask.iter().fold(Mask::IBV_QP_STATE.0, |all, bit| all | bit.0);
    // SAFETY: the queue pair is alive, and the attributes are those that the mask names.
    assert_eq!(unsafe { (LOOPBACK.modify_qp)(qp.as_ptr(), &mut attr, mask as i32) }, Ok(()));
}

fn init_by_c(qp: NonNull<ibv_qp>) {
    let attr = ibv_qp_attr { port_num: 1, qp_access_flags: QpAccess::all().bits(), ..zeroed() };
    let mask = [Mask::IBV_QP_PKEY_INDEX, Mask::IBV_QP_PORT, Mask::IBV_QP_ACCESS_FLAGS];
    modify(qp, attr, QpState::Init, &mask);
}

fn rts_by_c(qp: NonNull<ibv_qp>, peer: u32, gid: Gid) {
    let attr = ibv_qp_attr {
        ah_attr: AddressVector::roce(1, gid, 1).to_c(),
        path_mtu: Mtu::Bytes1024.to_c(),
        dest_qp_num: peer,
        max_dest_rd_atomic: 1,
        ..zeroed()
    };
    let mask = [
        Mask::IBV_QP_AV,
        Mask::IBV_QP_PATH_MTU,
        Mask::IBV_QP_DEST_QPN,
        Mask::IBV_QP_RQ_PSN,
        Mask::IBV_QP_MAX_DEST_RD_ATOMIC,
        Mask::IBV_QP_MIN_RNR_TIMER,
    ];
    modify(qp, attr, QpState::Rtr, &mask);
    let attr = ibv_qp_attr { retry_cnt: 6, max_rd_atomic: 1, timeout: 14, ..zeroed() };
    let mask = [
        Mask::IBV_QP_TIMEOUT,
        Mask::IBV_QP_RETRY_CNT,
        Mask::IBV_QP_RNR_RETRY,
        Mask::IBV_QP_SQ_PSN,
        Mask::IBV_QP_MAX_QP_RD_ATOMIC,
    ];
    modify(qp, attr, QpState::Rts, &mask);
}

fn number(qp: NonNull<ibv_qp>) -> u32 {
    // SAFETY: the queue pair is alive.
    unsafe { (*qp.as_ptr()).qp_num }
}

/// C code creates two queue pairs, connects one and moves the other to INIT. This crate takes them
/// over.
/// Proves R18.25.
#[test]
fn queue_pairs_of_cs_are_taken_over_in_their_states() {
    queue_pairs_are_taken_over(Fabric::new());
    // On a device that reports only what it must.
    queue_pairs_are_taken_over(Fabric::with(crate::loopback::Personality::worst(3)));
}

fn queue_pairs_are_taken_over(fabric: Fabric) {
    let ended = Arc::new(AtomicU32::new(0));
    let context = fabric.open_device();
    let (pd, theirs) = pd_of_c(&context, &ended);
    let mut cq = context.create_cq::<Buf>(64).unwrap();
    let create = || {
        let mut init = asked(cq.as_raw(), cq.as_raw());
        // SAFETY: the domain and the completion queue are alive.
        unsafe { (LOOPBACK.create_qp)(theirs.as_ptr(), &mut init) }.unwrap()
    };
    let gid = context.query_gid(1, 1).unwrap();
    let (a, b) = (create(), create());
    let (na, nb) = (number(a), number(b));
    init_by_c(a);
    rts_by_c(a, nb, gid);
    init_by_c(b);
    let before = cq.unbooked();
    let other = context.create_cq::<Buf>(64).unwrap();
    // SAFETY: it is alive, with nothing outstanding.
    let error = unsafe { pd.qp_from_raw::<Rc, Rts, DefaultProfile>(a, &other, &other, DEPTH) };
    let text = "ibv_query_qp: the queue pair completes into other completion queues";
    assert_eq!(error.unwrap_err().to_string(), text);
    // SAFETY: they are alive, with nothing outstanding, and this test does not use the handles from
    // here on.
    let (mut a, b) = unsafe {
        let a = pd.qp_from_raw::<Rc, Rts, DefaultProfile>(a, &cq, &cq, DEPTH).unwrap();
        let b = pd.qp_from_raw::<Rc, Init, DefaultProfile>(b, &cq, &cq, DEPTH).unwrap();
        (a, b)
    };
    assert_eq!(before - cq.unbooked(), 2 * (8 + 1 + 8));
    assert_eq!((a.qp_num(), b.qp_num(), a.depth()), (na, nb, DEPTH));
    let psn = Psn::new(0).unwrap();
    let rtr = RcRtr::new(AddressVector::roce(1, gid, 1), Qpn::new(na).unwrap(), psn);
    let mut b = b.modify(rtr).unwrap().modify(RcRts::new(psn, ReadDepth::ONE)).unwrap();
    // The longest message is the same, whichever code moved it to RTS.
    assert_eq!(a.core.counters.longest_message(), b.core.counters.longest_message());
    let pool = pd.create_pool(4, 64).unwrap();
    b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    let mut buf = pool.take().unwrap();
    buf.copy_from(b"half C").unwrap();
    a.post_send(wr::Send::new(buf)).unwrap();
    let mut got = None;
    let mut count = 0;
    while count < 2 {
        let Some(completion) = cq.poll_one().unwrap() else { continue };
        count += 1;
        if let Outcome::Received(received) = completion.outcome() {
            got = Some(received.data().to_vec());
        }
    }
    assert_eq!((got.as_deref(), pool.available()), (Some(&b"half C"[..]), 4));
    // They belong to this crate: they are destroyed here, once, and then the domain.
    a.destroy().unwrap();
    drop((b, pool, pd));
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    assert_eq!(poll_all(&mut cq), 0);
}

fn poll_all(cq: &mut CompletionQueue) -> usize {
    let mut count = 0;
    while let Some(completion) = cq.poll_one().unwrap() {
        drop(completion);
        count += 1;
    }
    count
}

/// A queue pair whose send queue has drained, and one in another state that the device reports as
/// draining.
#[test]
fn what_drains_is_asked_of_sqd_alone() {
    use crate::sys::control::Control;
    use crate::sys::types::ibv_qp_state;
    let drained = Control {
        query_qp: |qp, mask| {
            // SAFETY: the arguments come from the caller of the verb.
            unsafe {
                let (mut attr, init) = (LOOPBACK.query_qp)(qp, mask)?;
                (attr.qp_state, attr.port_num) = (ibv_qp_state::IBV_QPS_SQD, 1);
                Ok((attr, init))
            }
        },
        ..LOOPBACK
    };
    let draining = Control {
        query_qp: |qp, mask| {
            // SAFETY: the arguments come from the caller of the verb.
            unsafe {
                let (mut attr, init) = (LOOPBACK.query_qp)(qp, mask)?;
                attr.sq_draining = 1;
                Ok((attr, init))
            }
        },
        ..LOOPBACK
    };
    for (control, is_sqd) in [(drained, true), (draining, false)] {
        let ended = Arc::new(AtomicU32::new(0));
        let context = device_with(Fabric::new(), control);
        let (pd, theirs) = pd_of_c(&context, &ended);
        let cq = context.create_cq::<Buf>(64).unwrap();
        let mut init = asked(cq.as_raw(), cq.as_raw());
        // SAFETY: the domain and the completion queue are alive, nothing is ever outstanding, and
        // the queue pair is not used from here on.
        unsafe {
            let qp = (LOOPBACK.create_qp)(theirs.as_ptr(), &mut init).unwrap();
            if is_sqd {
                pd.qp_from_raw::<Rc, crate::state::Sqd, DefaultProfile>(qp, &cq, &cq, DEPTH)
                    .unwrap();
            } else {
                pd.qp_from_raw::<Rc, Reset, DefaultProfile>(qp, &cq, &cq, DEPTH).unwrap();
            }
        }
    }
}

/// A queue pair with a shared receive queue of C code, and one whose send queue drains.
#[test]
fn what_receives_elsewhere_or_drains_stays_cs() {
    use crate::sys::control::Control;
    use crate::sys::types::{ibv_qp_state, ibv_srq_attr, ibv_srq_init_attr};
    let draining = Control {
        query_qp: |qp, mask| {
            // SAFETY: the arguments come from the caller of the verb.
            unsafe {
                let (mut attr, init) = (LOOPBACK.query_qp)(qp, mask)?;
                (attr.qp_state, attr.sq_draining) = (ibv_qp_state::IBV_QPS_SQD, 1);
                Ok((attr, init))
            }
        },
        ..LOOPBACK
    };
    let ended = Arc::new(AtomicU32::new(0));
    let context = device_with(Fabric::new(), draining);
    let (pd, theirs) = pd_of_c(&context, &ended);
    let cq = context.create_cq::<Buf>(64).unwrap();
    let attr = ibv_srq_attr { max_wr: 4, max_sge: 1, ..zeroed() };
    let mut srq_init = ibv_srq_init_attr { attr, ..zeroed() };
    let mut init = asked(cq.as_raw(), cq.as_raw());
    // SAFETY: the domain and the completion queue are alive, and nothing is ever outstanding.
    unsafe {
        let qp = (LOOPBACK.create_qp)(theirs.as_ptr(), &mut init).unwrap();
        let error = pd.qp_from_raw::<Rc, crate::state::Sqd, DefaultProfile>(qp, &cq, &cq, DEPTH);
        let text = "ibv_query_qp: the send queue is draining: the state is `Draining`";
        assert_eq!(error.unwrap_err().to_string(), text);
        assert_eq!((LOOPBACK.destroy_qp)(qp.as_ptr()), Ok(()));

        let srq = (LOOPBACK.create_srq)(theirs.as_ptr(), &mut srq_init).unwrap();
        init.srq = srq.as_ptr();
        let qp = (LOOPBACK.create_qp)(theirs.as_ptr(), &mut init).unwrap();
        let error = pd.qp_from_raw::<Rc, Reset, DefaultProfile>(qp, &cq, &cq, DEPTH);
        let text = "ibv_query_qp: the queue pair receives from a shared receive queue";
        assert_eq!(error.unwrap_err().to_string(), text);
        assert_eq!((LOOPBACK.destroy_qp)(qp.as_ptr()), Ok(()));
        assert_eq!((LOOPBACK.destroy_srq)(srq.as_ptr()), Ok(()));
    }
}

/// A queue pair that does not match the types is not taken over, and the error says why.
/// Proves R18.25.
#[test]
fn what_is_not_what_the_types_say_stays_cs() {
    profile! { Long { max_inline: 512 } }
    profile! { Chosen { signaling: Selective } }
    let ended = Arc::new(AtomicU32::new(0));
    let context = Fabric::new().open_device();
    let (pd, theirs) = pd_of_c(&context, &ended);
    let cq = context.create_cq::<Buf>(64).unwrap();
    let mut init = asked(cq.as_raw(), cq.as_raw());
    // SAFETY: the domain and the completion queue are alive.
    let qp = unsafe { (LOOPBACK.create_qp)(theirs.as_ptr(), &mut init) }.unwrap();
    macro_rules! refused {
        ($pd:expr, $t:ty, $s:ty, $p:ty, $depth:expr) => {{
            // SAFETY: it is alive, with nothing outstanding.
            let result = unsafe { $pd.qp_from_raw::<$t, $s, $p>(qp, &cq, &cq, $depth) };
            result.unwrap_err().to_string()
        }};
    }
    let text = refused!(pd, Uc, Reset, DefaultProfile, DEPTH);
    assert_eq!(text, "ibv_query_qp: the queue pair is not UC");
    let text = refused!(pd, Rc, Rts, DefaultProfile, DEPTH);
    assert_eq!(text, "ibv_query_qp: the queue pair is in RESET, not in RTS");
    let text = refused!(pd, Rc, Reset, Chosen, DEPTH);
    assert_eq!(text, "ibv_query_qp: the queue pair has sq_sig_all 1");
    let text = refused!(pd, Rc, Reset, Long, DEPTH);
    assert_eq!(text, "ibv_query_qp: max_inline_data 512 exceeds 64");
    let text = refused!(pd, Rc, Reset, DefaultProfile, Depth { send: 9, recv: 8 });
    assert_eq!(text, "ibv_query_qp: max_send_wr 10 exceeds 9");
    let text = refused!(context.alloc_pd().unwrap(), Rc, Reset, DefaultProfile, DEPTH);
    assert_eq!(
        text,
        "ibv_query_qp: the queue pair and the protection domain belong to different protection domains"
    );
    let text = refused!(pd, Rc, Reset, DefaultProfile, Depth { send: 8, recv: 9 });
    assert_eq!(text, "ibv_query_qp: max_recv_wr 9 exceeds 8");
    let other = Fabric::new().open_device().create_cq::<Buf>(64).unwrap();
    for (send_cq, recv_cq) in [(&other, &cq), (&cq, &other)] {
        // SAFETY: it is alive, with nothing outstanding.
        let result =
            unsafe { pd.qp_from_raw::<Rc, Reset, DefaultProfile>(qp, send_cq, recv_cq, DEPTH) };
        let error = result.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ContextMismatch { .. }), "{error}");
    }
    assert_eq!((cq.unbooked(), other.unbooked()), (cq.capacity(), other.capacity()));
    // SAFETY: this test still owns it.
    assert_eq!(unsafe { (LOOPBACK.destroy_qp)(qp.as_ptr()) }, Ok(()));
    // Each of its completion queues has room for its part, or no entries are reserved.
    let small = context.create_cq::<Buf>(8).unwrap();
    let rest = small.unbooked() - 7;
    // (Another queue pair takes the rest.)
    let _other =
        pd.create_qp::<Rc, DefaultProfile>(&small, &cq, Depth { send: rest - 1, recv: 1 }).unwrap();
    assert_eq!(small.unbooked(), 7);
    let before = cq.unbooked();
    for (send_cq, recv_cq) in [(&small, &cq), (&cq, &small)] {
        let mut init = asked(send_cq.as_raw(), recv_cq.as_raw());
        // SAFETY: the domain and the completion queues are alive, and nothing is outstanding.
        unsafe {
            let qp = (LOOPBACK.create_qp)(theirs.as_ptr(), &mut init).unwrap();
            let result = pd.qp_from_raw::<Rc, Reset, DefaultProfile>(qp, send_cq, recv_cq, DEPTH);
            let error = result.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::CqTooSmall { .. }), "{error}");
            assert_eq!((LOOPBACK.destroy_qp)(qp.as_ptr()), Ok(()));
        }
        assert_eq!((small.unbooked(), cq.unbooked()), (7, before));
    }
}
