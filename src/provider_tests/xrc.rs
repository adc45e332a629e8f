//! The arguments and the order of C calls, recorded by stub functions.

#![allow(clippy::undocumented_unsafe_blocks)] // objects of this file, all of them live

use std::cell::Cell;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::ext::extended_posting::ExtendedPosting;
use crate::ext::xrc::{XrcDomain, XrcTarget, XrcTargetRtr, XrcTargetRts, XrcdFile};
use crate::prelude::*;
use crate::qp::Max;
use crate::sys::control::{Answer, Control, LIBIBVERBS, created};
use crate::sys::create_qp_ex::{CREATE_QP_EX, ibv_qp_init_attr_ex};
use crate::sys::extended::BARE;
use crate::sys::handle;
use crate::sys::session::stub::with_extended;
use crate::sys::tests::{self, saw, seen};
use crate::sys::types::*;
use crate::sys::xrc::*;
use std::ffi::{c_int, c_void};
use std::ptr;

profile! { Initiating { receive: NoRq } }
profile! { InSessions { receive: NoRq, posting: ExtendedPosting } }

thread_local! {
    /// The call that fails, and its errno.
    static REFUSED: Cell<(&str, c_int)> = const { Cell::new(("", 0)) };
    /// The number of the next shared receive queue.
    static NUMBER: Cell<u32> = const { Cell::new(0xab_cdef) };
}

fn is_refused(call: &str) -> Option<c_int> {
    let (refused, errno) = REFUSED.get();
    (refused == call).then(|| {
        unsafe { *libc::__errno_location() = errno };
        errno
    })
}

/// An object that `gone` frees; null with errno set if this call fails.
fn made<T>(call: &str, object: T) -> *mut T {
    match is_refused(call) {
        Some(_) => ptr::null_mut(),
        None => Box::into_raw(Box::new(object)),
    }
}

unsafe fn gone<T>(what: &str, object: *mut T) -> Answer {
    saw(format!("no {what}"));
    drop(unsafe { Box::from_raw(object) });
    Ok(())
}

unsafe extern "C" fn open(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    let ibv_xrcd_init_attr { comp_mask, fd, oflags } = unsafe { attr.read() };
    saw(format!("xrcd {comp_mask} {fd} {oflags:#o}"));
    made("xrcd", ibv_xrcd { context })
}

unsafe extern "C" fn close(xrcd: *mut ibv_xrcd) -> c_int {
    match is_refused("close") {
        Some(errno) => errno,
        None => unsafe { gone("xrcd", xrcd) }.err().unwrap_or(0),
    }
}

unsafe extern "C" fn srq_ex(
    context: *mut ibv_context,
    at: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    let attr = unsafe { at.read() };
    let here = unsafe {
        [(*attr.pd).context, (*attr.xrcd).context, (*attr.cq).context].map(|at| at == context)
    };
    let (mask, kind, tm) = (attr.comp_mask, attr.srq_type, attr.tm_cap);
    let ibv_srq_attr { max_wr, max_sge, srq_limit } = attr.attr;
    saw(format!(
        "srq {max_wr} {max_sge} {srq_limit} {mask} {kind} {here:?} {} {}",
        tm.max_num_tags, tm.max_ops
    ));
    unsafe { (*at).attr.max_wr = max_wr + 1 };
    made("srq", ibv_srq { context, pd: attr.pd, srq_context: attr.srq_context, ..zeroed() })
}

unsafe extern "C" fn number(_: *mut ibv_srq, number: *mut u32) -> c_int {
    saw("number");
    unsafe { number.write(NUMBER.get()) };
    is_refused("number").unwrap_or(0)
}

unsafe extern "C" fn qp_ex(context: *mut ibv_context, at: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
    let attr = unsafe { at.read() };
    let named = [
        attr.pd.is_null(),
        attr.xrcd.is_null(),
        attr.send_cq.is_null(),
        attr.recv_cq.is_null(),
        attr.srq.is_null(),
    ];
    let ibv_qp_init_attr_ex { qp_type, comp_mask, cap, send_ops_flags, .. } = attr;
    let kind = attr.qp_context.addr();
    saw(format!(
        "qp_ex {qp_type} {comp_mask} null {named:?} {} {} {send_ops_flags:#x} {kind}",
        cap.max_send_wr, cap.max_recv_wr
    ));
    let ibv_qp_init_attr_ex { pd, send_cq, recv_cq, srq, qp_context, .. } = attr;
    made(
        "qp",
        ibv_qp { context, pd, send_cq, recv_cq, srq, qp_type, qp_context, qp_num: 7, ..zeroed() },
    )
}

/// A library with these operations.
static LIBRARY: Control = Control {
    close_device: |_| Ok(()),
    query_device: |_| Ok(ibv_device_attr { max_cqe: 64, max_qp_wr: 64, max_sge: 4, ..zeroed() }),
    query_device_ex: |_| {
        let mut told = zeroed::<crate::sys::extended::ibv_device_attr_ex>();
        told.orig_attr.device_cap_flags = 1 << 20; // XRC
        Ok(told)
    },
    alloc_pd: |context| created(made("pd", ibv_pd { context, handle: 1 })),
    dealloc_pd: |pd| unsafe { gone("pd", pd) },
    create_cq: |context, cqe, _, _| created(made("cq", ibv_cq { context, cqe, ..zeroed() })),
    destroy_cq: |cq| unsafe { gone("cq", cq) },
    create_qp: |pd, init| unsafe {
        let ibv_qp_init_attr { send_cq, recv_cq, srq, qp_type, cap, .. } = init.read();
        let ibv_qp_cap { max_send_wr, max_recv_wr, max_recv_sge, .. } = cap;
        let nulls = [send_cq.is_null(), recv_cq.is_null(), srq.is_null()];
        saw(format!("qp {qp_type} null {nulls:?} {max_send_wr} {max_recv_wr} {max_recv_sge}"));
        let context = (*pd).context;
        created(made("qp", ibv_qp { context, pd, send_cq, qp_type, ..zeroed() }))
    },
    modify_qp: |qp, attr, mask| unsafe {
        let attr = attr.read();
        let ibv_qp_attr { qp_state, port_num, qp_access_flags, dest_qp_num, rq_psn, .. } = attr;
        let ibv_qp_attr { max_dest_rd_atomic, min_rnr_timer, timeout, sq_psn, .. } = attr;
        let values = [port_num.into(), qp_access_flags, dest_qp_num, rq_psn, sq_psn];
        let codes = [max_dest_rd_atomic, min_rnr_timer, timeout];
        let at = attr.ah_attr.port_num;
        saw(format!("modify {} to {qp_state} {mask:#x} {values:?} {codes:?} {at}", (*qp).qp_num));
        Ok(())
    },
    destroy_qp: |qp| unsafe { gone("qp", qp) },
    destroy_srq: |srq| unsafe { gone("srq", srq) },
    reg_mr: |pd, addr, length, _, _| unsafe {
        let (context, addr) = ((*pd).context, addr.cast::<c_void>());
        created(made("mr", ibv_mr { context, pd, addr, length, handle: 0, lkey: 1, rkey: 2 }))
    },
    dereg_mr: |mr| unsafe { gone("mr", mr) },
    is_software: |_| false,
    ..LIBIBVERBS
};

/// A context whose `verbs_context` has the size `size`. Its polls return nothing.
fn context(size: usize) -> Context {
    unsafe extern "C" fn poll(_: *mut ibv_cq, _: c_int, _: *mut ibv_wc) -> c_int {
        0
    }
    REFUSED.set(("", 0));
    NUMBER.set(0xab_cdef);
    const WORDS: usize = CREATE_QP_EX / 8;
    let context = tests::context::<WORDS>(
        size,
        &[
            (OPEN_XRCD, open as *const ()),
            (CLOSE_XRCD, close as *const ()),
            (CREATE_SRQ_EX, srq_ex as *const ()),
            (GET_SRQ_NUM, number as *const ()),
            (CREATE_QP_EX, qp_ex as *const ()),
        ],
    );
    unsafe {
        (*context).ops.poll_cq = Some(poll);
        let handle =
            handle::Context::new(NonNull::new_unchecked(context), &LIBRARY, Default::default());
        Context { handle: Arc::new(handle) }
    }
}

const ALL: usize = BARE + CREATE_QP_EX;

fn can(context: &Context) -> crate::device::Can<Xrc> {
    context.abilities().unwrap().can().unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "Miri opens no files")]
fn domains_are_named_by_files() {
    let context = context(ALL);
    let can = can(&context);
    let file = File::open("/dev/null").unwrap();
    let fd = file.as_fd();
    for kind in [XrcdFile::Private, XrcdFile::Any(fd), XrcdFile::New(fd), XrcdFile::Existing(fd)] {
        context.open_xrcd(&can, kind).unwrap().close().unwrap();
    }
    let (fd, end) = (file.as_raw_fd(), "no xrcd");
    let of_file = |oflags| format!("xrcd 3 {fd} {oflags}");
    // O_CREAT, and with O_EXCL.
    let [any, new, existing] = ["0o100", "0o300", "0o0"].map(of_file);
    let expected = ["xrcd 3 -1 0o100", end, &any, end, &new, end, &existing, end];
    assert_eq!(seen(), expected);

    REFUSED.set(("xrcd", libc::EAGAIN));
    let error = context.open_xrcd(&can, XrcdFile::Existing(file.as_fd())).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("ibv_open_xrcd", Some(libc::EAGAIN)));
    REFUSED.set(("close", libc::EBUSY));
    let domain = context.open_xrcd(&can, XrcdFile::Private).unwrap();
    let refused = domain.close().unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EBUSY));
    REFUSED.set(("", 0));
    refused.into_object().close().unwrap();
    assert_eq!(seen().pop().unwrap(), "no xrcd");
}

struct Around {
    context: Context,
    domain: XrcDomain,
    pd: ProtectionDomain,
    pool: Pool,
    cq: CompletionQueue,
}

fn around() -> Around {
    let context = context(ALL);
    let domain = context.open_xrcd(&can(&context), XrcdFile::Private).unwrap();
    let pd = context.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let cq = context.create_cq(16).unwrap();
    seen();
    Around { context, domain, pd, pool, cq }
}

/// Proves R26.6.
#[test]
fn a_shared_receive_queue_has_all_that_c_asks_for() {
    let Around { context, domain, pd, pool, cq } = around();
    let srq = domain.create_srq::<Buf, Max<2>, (), _>(&pd, &pool, &cq).unwrap();
    // 4 buffers, 2 elements, no limit, all of the mask but tag matching, XRC.
    assert_eq!(seen(), ["srq 4 2 0 15 1 [true, true, true] 0 0", "number"]);
    assert_eq!((srq.number().get(), cq.unbooked()), (0xab_cdef, 12));
    // Regardless of the drop order, C destroys the queue before its parents.
    drop((context, pd, pool, cq));
    let domain = domain.close().unwrap_err().into_object();
    drop(domain);
    assert_eq!(seen(), [""; 0]);
    drop(srq);
    let gone = seen();
    assert_eq!(gone[0], "no srq");
    let mut rest = gone[1..].to_vec();
    rest.sort();
    assert_eq!(rest, ["no cq", "no mr", "no pd", "no xrcd"]);
}

#[test]
fn a_shared_receive_queue_that_cannot_be_leaves_nothing() {
    let Around { context: _context, domain, pd, pool, cq } = around();
    let make = || domain.create_srq::<Buf, Max<1>, (), _>(&pd, &pool, &cq);
    REFUSED.set(("srq", libc::ENOMEM));
    let error = make().unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("ibv_create_srq_ex", Some(libc::ENOMEM)));
    assert_eq!((seen().len(), cq.unbooked()), (1, 16));
    REFUSED.set(("number", libc::EIO));
    assert_eq!(make().unwrap_err().errno(), Some(libc::EIO));
    assert_eq!((seen()[1..].to_vec(), cq.unbooked()), (vec!["number".into(), "no srq".into()], 16));
    REFUSED.set(("", 0));
    // A number that XRC's header cannot hold.
    NUMBER.set(1 << 24);
    assert!(make().is_err());
    assert_eq!((seen().pop().unwrap(), cq.unbooked()), ("no srq".to_owned(), 16));
    // A library without these operations.
    let older = context(BARE + CLOSE_XRCD);
    let error = older.open_xrcd(&can(&older), XrcdFile::Private).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EOPNOTSUPP));
}

/// Proves R26.3.
#[test]
fn a_target_has_its_domain_alone() {
    let Around { context, domain, pd, pool, cq } = around();
    let target: XrcTarget<Reset> = domain.create_target().unwrap();
    // XRC_RECV, the mask of the XRC domain, and null but for it.
    let expected = ["qp_ex 10 2 null [true, false, true, true, true] 0 0 0x0 0"];
    assert_eq!(seen(), expected);
    assert_eq!(target.qp_num(), 7);
    let access = QpAccess::REMOTE_WRITE;
    let target = target.modify(ConnectedInit { pkey_index: 0, port: 1, access }).unwrap();
    let (peer, psn) = (Qpn::new(9).unwrap(), Psn::new(5).unwrap());
    let rtr = XrcTargetRtr::new(AddressVector::infiniband(1, 3), peer, psn);
    let target = target.modify(rtr).unwrap();
    let target = target.modify(XrcTargetRts::new(Psn::new(6).unwrap())).unwrap();
    let target = target.to_error().unwrap().reset().unwrap();
    let expected = [
        // STATE, ACCESS_FLAGS, PKEY_INDEX, PORT.
        "modify 7 to 1 0x39 [1, 2, 0, 0, 0] [0, 0, 0] 1",
        // STATE, AV, PATH_MTU, RQ_PSN, MIN_RNR_TIMER, MAX_DEST_RD_ATOMIC, DEST_QPN.
        "modify 7 to 2 0x129181 [0, 0, 9, 5, 0] [1, 26, 0] 1",
        // STATE, TIMEOUT, SQ_PSN.
        "modify 7 to 3 0x10201 [0, 0, 0, 0, 6] [0, 0, 14] 1",
        "modify 7 to 6 0x1 [0, 0, 0, 0, 0] [0, 0, 0] 0",
        "modify 7 to 0 0x1 [0, 0, 0, 0, 0] [0, 0, 0] 0",
    ];
    assert_eq!(seen(), expected);
    drop((context, pd, pool, cq, domain));
    assert!(!seen().contains(&"no xrcd".to_owned()));
    target.destroy().unwrap();
    assert_eq!(seen(), ["no qp", "no xrcd"]);
}

/// Proves R26.2.
#[test]
fn an_initiator_has_no_receives() {
    let Around { context, pd, cq, domain: _domain, pool: _pool } = around();
    let proof = can(&context);
    let qp = pd.create_xrc_initiator::<Initiating>(&proof, &cq, 4).unwrap();
    // XRC_SEND; sends and a marker; no receives, and no queue for their completions.
    assert_eq!(seen(), ["qp 9 null [false, true, true] 5 0 0"]);
    assert_eq!(cq.unbooked(), 16 - 5);
    drop(qp);
    // In sessions: all operations except those of windows and of persistent memory; marked as
    // XRC's.
    unsafe { with_extended() };
    let qp = pd.create_xrc_initiator::<InSessions>(&proof, &cq, 4).unwrap();
    let asked = seen();
    let expected = "qp_ex 9 65 null [false, true, false, true, true] 5 0 0x27f 2";
    assert_eq!(asked.iter().find(|call| call.starts_with("qp_ex")).unwrap(), expected);
    drop(qp);
    // An ability of another device is rejected.
    let other = self::context(ALL);
    assert!(pd.create_xrc_initiator::<Initiating>(&self::can(&other), &cq, 4).is_err());
}
