//! The arguments and the order of C calls, recorded by stub functions.

#![allow(clippy::undocumented_unsafe_blocks)] // objects of this file, all of them live

use std::cell::Cell;
use std::ptr::NonNull;

use crate::device::Lane;
use crate::prelude::*;
use crate::qp::InLane;
use crate::sys::control::{Answer, Control, Created, LIBIBVERBS, created};
use crate::sys::extended::BARE;
use crate::sys::lanes::*;
use crate::sys::polling::{CREATE_CQ_EX, ibv_cq_ex, ibv_cq_init_attr_ex};
use crate::sys::tests::{saw, seen};
use crate::sys::types::*;
use crate::sys::{handle, tests};
use std::ffi::c_int;
use std::ptr;

profile! { Fast { threads: InLane } }
profile! { Served { threads: InLane, receive: SharedRq } }

thread_local! {
    /// The call that fails, and its errno.
    static REFUSED: Cell<(&str, c_int)> = const { Cell::new(("", 0)) };
}

/// An object that `gone` frees; null with errno set if this call fails.
fn made<T>(call: &str, object: T) -> *mut T {
    match REFUSED.get() {
        (refused, errno) if refused == call => {
            unsafe { *libc::__errno_location() = errno };
            ptr::null_mut()
        }
        _ => Box::into_raw(Box::new(object)),
    }
}

unsafe fn gone<T>(what: &str, object: *mut T) -> Answer {
    saw(format!("no {what}"));
    drop(unsafe { Box::from_raw(object) });
    Ok(())
}

unsafe extern "C" fn td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td {
    saw(format!("td, {}", unsafe { (*attr).comp_mask }));
    made("td", ibv_td { context })
}

unsafe extern "C" fn no_td(td: *mut ibv_td) -> c_int {
    unsafe { gone("td", td) }.err().unwrap_or(0)
}

unsafe extern "C" fn parent(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    let attr = unsafe { attr.read() };
    let is_here = unsafe { (*attr.td).context } == context;
    let allocates = [attr.alloc, attr.free, attr.pd_context].iter().any(|at| !at.is_null());
    let pd = unsafe { (*attr.pd).handle };
    saw(format!("parent of pd {pd}, td here {is_here}, {}, {allocates}", attr.comp_mask));
    made("parent", ibv_pd { context, handle: 2 })
}

unsafe extern "C" fn cq_ex(
    context: *mut ibv_context,
    at: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    let attr = unsafe { at.read() };
    let ibv_cq_init_attr_ex { cqe, comp_vector, wc_flags, comp_mask, flags, .. } = attr;
    let bare = attr.channel.is_null() && attr.parent_domain.is_null();
    saw(format!("cq_ex {cqe}, {comp_vector}, {wc_flags}, {comp_mask}, {flags}, {bare}"));
    made("cq_ex", of_both_kinds(context, cqe as c_int))
}

/// A completion queue that is freed as an extended one.
fn of_both_kinds(context: *mut ibv_context, cqe: c_int) -> ibv_cq_ex {
    ibv_cq_ex { cq: ibv_cq { context, cqe, ..zeroed() }, ..zeroed() }
}

unsafe fn cq(
    context: *mut ibv_context,
    cqe: c_int,
    _: *mut ibv_comp_channel,
    _: c_int,
) -> Created<ibv_cq> {
    saw(format!("cq {cqe}"));
    created(made("cq", of_both_kinds(context, cqe)).cast())
}

/// A library with these operations.
static LIBRARY: Control = Control {
    close_device: |_| Ok(()),
    query_device: |_| Ok(ibv_device_attr { max_cqe: 64, max_qp_wr: 64, max_sge: 4, ..zeroed() }),
    alloc_pd: |context| created(made("pd", ibv_pd { context, handle: 1 })),
    dealloc_pd: |pd| unsafe {
        let what = format!("pd {}", (*pd).handle);
        gone(&what, pd)
    },
    create_cq: cq,
    destroy_cq: |cq| unsafe { gone("cq", cq.cast::<ibv_cq_ex>()) },
    create_qp: |pd, init| unsafe {
        saw(format!("qp on pd {}", (*pd).handle));
        let ibv_qp_init_attr { send_cq, recv_cq, srq, qp_type, .. } = init.read();
        let context = (*pd).context;
        created(made("qp", ibv_qp { context, pd, send_cq, recv_cq, srq, qp_type, ..zeroed() }))
    },
    destroy_qp: |qp| unsafe { gone("qp", qp) },
    create_srq: |pd, _| unsafe {
        saw(format!("srq on pd {}", (*pd).handle));
        created(made("srq", ibv_srq { context: (*pd).context, pd, ..zeroed() }))
    },
    destroy_srq: |srq| unsafe { gone("srq", srq) },
    reg_mr: |pd, addr, length, _, _| unsafe {
        saw(format!("mr on pd {}", (*pd).handle));
        let (context, addr) = ((*pd).context, addr.cast());
        created(made("mr", ibv_mr { context, pd, addr, length, handle: 0, lkey: 1, rkey: 2 }))
    },
    dereg_mr: |mr| unsafe { gone("mr", mr) },
    ..LIBIBVERBS
};

/// A context whose `verbs_context` has the size `size`. Its polls return nothing.
fn context(size: usize) -> Context {
    unsafe extern "C" fn poll(_: *mut ibv_cq, _: c_int, _: *mut ibv_wc) -> c_int {
        0
    }
    const WORDS: usize = ALLOC_PARENT_DOMAIN / 8;
    let context = tests::context::<WORDS>(
        size,
        &[
            (ALLOC_TD, td as *const ()),
            (DEALLOC_TD, no_td as *const ()),
            (ALLOC_PARENT_DOMAIN, parent as *const ()),
            (CREATE_CQ_EX, cq_ex as *const ()),
        ],
    );
    unsafe {
        (*context).ops.poll_cq = Some(poll);
        let handle =
            handle::Context::new(NonNull::new_unchecked(context), &LIBRARY, Default::default());
        Context { handle: std::sync::Arc::new(handle) }
    }
}

const ALL: usize = BARE + ALLOC_PARENT_DOMAIN;
const DEPTH: Depth = Depth { send: 4, recv: 4 };

/// Proves R17.8.
#[test]
fn a_lane_reaches_c_in_order() {
    REFUSED.set(("", 0));
    let context = context(ALL);
    let pd = context.alloc_pd().unwrap();
    let lane: Lane = pd.alloc_lane().unwrap();
    assert!(lane.has_thread_domain());
    assert_eq!(seen(), ["td, 0", "parent of pd 1, td here true, 0, false"]);
    let cq: CompletionQueue<Buf, InLane> = lane.create_cq(40).unwrap();
    assert!(cq.is_single_threaded());
    assert_eq!(seen(), ["cq_ex 40, 0, 0, 1, 1, true"]);
    let qp = lane.create_qp::<Rc, Fast>(&cq, &cq, DEPTH).unwrap();
    assert_eq!(seen(), ["qp on pd 2"]);
    // Memory belongs to the domain.
    let pool = pd.create_pool(2, 64).unwrap();
    assert_eq!(seen(), ["mr on pd 1"]);
    let srq = lane.create_srq::<Rc, Buf, crate::qp::Max<1>, ()>(&pool).unwrap();
    assert_eq!(seen(), ["srq on pd 2"]);
    // Regardless of the drop order, C destroys children before parents.
    drop(context);
    let pd = pd.destroy().unwrap_err().into_object();
    drop((pd, pool));
    assert_eq!(seen(), [""; 0]);
    let served = lane.create_qp::<Rc, Served>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
    drop(lane);
    drop((cq, srq));
    assert_eq!(seen(), ["qp on pd 2", "no mr"]);
    drop(served);
    assert_eq!(seen(), ["no qp", "no srq"]);
    drop(qp);
    assert_eq!(seen(), ["no qp", "no pd 2", "no td", "no pd 1", "no cq"]);
}

/// Ordinary domains without lanes, if the library or the device lacks lanes.
/// Proves R17.2.
#[test]
fn a_device_without_lanes_has_ordinary_objects() {
    let outcome = |size, refused, errno| {
        REFUSED.set((refused, errno));
        let context = context(size);
        let pd = context.alloc_pd().unwrap();
        let made = pd.alloc_lane().and_then(|lane| {
            let cq = lane.create_cq::<Buf>(40)?;
            let _ = lane.create_qp::<Rc, Fast>(&cq, &cq, DEPTH);
            Ok((lane.has_thread_domain(), cq.is_single_threaded()))
        });
        drop((context, pd));
        (made.map_err(|error| (error.verb(), error.errno())), seen().join("; "))
    };
    let ordinary = "cq 40; qp on pd 1; no qp";
    let (made, calls) = outcome(BARE + CREATE_CQ_EX - 1, "", 0);
    assert_eq!((made, calls), (Ok((false, false)), format!("{ordinary}; no cq; no pd 1")));
    for errno in [libc::EOPNOTSUPP, libc::ENOSYS] {
        let (made, calls) = outcome(ALL, "td", errno);
        assert_eq!(made, Ok((false, true)));
        assert_eq!(calls, "td, 0; cq_ex 40, 0, 0, 1, 1, true; qp on pd 1; no qp; no cq; no pd 1");
        let (made, calls) = outcome(ALL, "parent", errno);
        assert_eq!(made, Ok((false, true)));
        assert!(calls.contains("false; no td; cq_ex"), "{calls}");
        let (made, calls) = outcome(ALL, "cq_ex", errno);
        assert_eq!(made, Ok((true, false)));
        assert!(calls.contains("true; cq 40; qp on pd 2"), "{calls}");
    }
    // Other errors are returned.
    assert_eq!(outcome(ALL, "td", libc::ENOMEM).0, Err(("ibv_alloc_td", Some(libc::ENOMEM))));
    let (made, calls) = outcome(ALL, "parent", libc::EINVAL);
    assert_eq!(made, Err(("ibv_alloc_parent_domain", Some(libc::EINVAL))));
    assert!(calls.ends_with("false; no td; no pd 1"), "{calls}");
    assert_eq!(outcome(ALL, "cq_ex", libc::ENOMEM).0, Err(("ibv_create_cq", Some(libc::ENOMEM))));
}
