//! The arguments and the order of C calls, recorded by stub functions.

#![allow(clippy::undocumented_unsafe_blocks)] // objects of this file, all of them live

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::completion::WcStatus;
use crate::ext::extended_polling::{
    CompletionQueueEx, CompletionTs, CompletionWallclock, DlidPathBits, WcFields,
};
use crate::memory::header::word;
use crate::prelude::*;
use crate::qp::InLane;
use crate::sys::control::{Control, LIBIBVERBS, created};
use crate::sys::extended::BARE;
use crate::sys::polling::*;
use crate::sys::tests::saw;
use crate::sys::types::*;
use crate::sys::{handle, tests};
use std::ffi::{c_int, c_uint};
use std::ptr;

thread_local! {
    /// The results of the next starts and nexts: a completion, or an errno.
    static SCRIPT: RefCell<VecDeque<Result<Shown, c_int>>> = const { RefCell::new(VecDeque::new()) };
    static IS_SINGLE: Cell<bool> = const { Cell::new(false) };
    /// The `wc_flags` of completions.
    static WC_FLAGS: Cell<c_uint> = const { Cell::new(2) };
    /// The errno of creating a single-threaded queue, and of any queue.
    static REFUSED: Cell<(c_int, c_int)> = const { Cell::new((0, 0)) };
}

/// A completion of a receive, of a datagram, or of a send, without a buffer.
#[derive(Clone, Copy)]
enum Shown {
    Sent,
    Received,
    Datagram,
    Failed,
}

fn seen() -> String {
    tests::seen().join(" ")
}

fn play(script: impl IntoIterator<Item = Result<Shown, c_int>>) {
    SCRIPT.with_borrow_mut(|to| *to = script.into_iter().collect());
}

unsafe fn show(cq: *mut ibv_cq_ex) -> c_int {
    match SCRIPT.with_borrow_mut(VecDeque::pop_front).unwrap_or(Err(libc::ENOENT)) {
        Ok(shown) => unsafe {
            let tags = match shown {
                Shown::Sent | Shown::Failed => 0,
                Shown::Received => word::RECEIVE,
                Shown::Datagram => word::RECEIVE | word::DATAGRAM,
            };
            // Without a counter, because another test checks that completions are counted.
            (*cq).wr_id = (word::NONE | word::RING | tags) as u64;
            (*cq).status = if matches!(shown, Shown::Failed) { 5 } else { 0 };
            0
        },
        Err(errno) => errno,
    }
}

unsafe extern "C" fn start(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    saw(format!("start({})", unsafe { (*attr).comp_mask }));
    unsafe { show(cq) }
}

unsafe extern "C" fn next(cq: *mut ibv_cq_ex) -> c_int {
    saw("next");
    unsafe { show(cq) }
}

unsafe extern "C" fn end(_: *mut ibv_cq_ex) {
    saw("end");
}

macro_rules! reads {
    ($($name:ident: $type:ty = $value:expr;)*) => {$(
        unsafe extern "C" fn $name(_: *mut ibv_cq_ex) -> $type {
            saw(stringify!($name));
            $value
        }
    )*};
}

reads! {
    opcode: u32 = 128;
    vendor_err: u32 = 77;
    byte_len: u32 = 5;
    imm_data: u32 = 9u32.to_be();
    qp_num: u32 = 17;
    src_qp: u32 = 18;
    wc_flags_: c_uint = WC_FLAGS.get();
    slid: u32 = 0x1_0003;
    sl: u8 = 4;
    dlid_path_bits: u8 = 6;
    ts: u64 = u64::MAX - 1;
    wallclock: u64 = 1 << 60;
}

/// Sets the functions of the requested fields, and no others.
unsafe extern "C" fn create(
    context: *mut ibv_context,
    at: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    let attr = unsafe { at.read() };
    let ibv_cq_init_attr_ex { cqe, comp_vector, wc_flags, comp_mask, flags, .. } = attr;
    let bare = [attr.cq_context, attr.parent_domain.cast(), attr.channel.cast()];
    let bare = bare.iter().all(|at| at.is_null());
    saw(format!("cq_ex {cqe}, {comp_vector}, {wc_flags:#x}, {comp_mask}, {flags}, {bare}"));
    let (single, any) = REFUSED.get();
    let refused = if flags == SINGLE_THREADED { single } else { any };
    if refused != 0 {
        unsafe { *libc::__errno_location() = refused };
        return ptr::null_mut();
    }
    let asked = |flag| wc_flags & flag != 0;
    macro_rules! read {
        ($flag:ident $function:ident) => {
            asked(wc_flags::$flag).then_some($function as _)
        };
    }
    Box::into_raw(Box::new(ibv_cq_ex {
        cq: ibv_cq { context, cqe: cqe as c_int, ..zeroed() },
        start_poll: Some(start),
        next_poll: Some(next),
        end_poll: Some(end),
        read_opcode: Some(opcode),
        read_vendor_err: Some(vendor_err),
        read_wc_flags: Some(wc_flags_),
        read_byte_len: read!(BYTE_LEN byte_len),
        read_imm_data: read!(IMM imm_data),
        read_qp_num: read!(QP_NUM qp_num),
        read_src_qp: read!(SRC_QP src_qp),
        read_slid: read!(SLID slid),
        read_sl: read!(SL sl),
        read_dlid_path_bits: read!(DLID_PATH_BITS dlid_path_bits),
        read_completion_ts: read!(COMPLETION_TIMESTAMP ts),
        read_completion_wallclock_ns: read!(COMPLETION_TIMESTAMP_WALLCLOCK wallclock),
        ..zeroed()
    }))
}

/// A library with the operation.
static LIBRARY: Control = Control {
    close_device: |_| Ok(()),
    query_device: |_| Ok(ibv_device_attr { max_cqe: 64, ..zeroed() }),
    is_software: |_| IS_SINGLE.get(),
    alloc_pd: |context| created(Box::into_raw(Box::new(ibv_pd { context, handle: 1 }))),
    dealloc_pd: |pd| {
        drop(unsafe { Box::from_raw(pd) });
        Ok(())
    },
    destroy_cq: |cq| {
        saw("no cq");
        drop(unsafe { Box::from_raw(cq.cast::<ibv_cq_ex>()) });
        Ok(())
    },
    ..LIBIBVERBS
};

/// A context whose `verbs_context` has the size `size`.
fn context(size: usize) -> Context {
    const WORDS: usize = CREATE_CQ_EX / 8;
    let context = tests::context::<WORDS>(size, &[(CREATE_CQ_EX, create as *const ())]);
    unsafe {
        let handle =
            handle::Context::new(NonNull::new_unchecked(context), &LIBRARY, Default::default());
        Context { handle: std::sync::Arc::new(handle) }
    }
}

const ALL: usize = BARE + CREATE_CQ_EX;

fn queue<F: WcFields>() -> CompletionQueueEx<F> {
    REFUSED.set((0, 0));
    context(ALL).cq(40).fields().create().unwrap()
}

/// Polls once. Returns the number of completions or the errno, and the calls.
fn polled<F: WcFields>(
    cq: &mut CompletionQueueEx<F>,
    script: impl IntoIterator<Item = Result<Shown, c_int>>,
) -> (Result<usize, Option<i32>>, String) {
    play(script);
    seen();
    let came = cq.poll().map(|completions| completions.map(std::mem::forget).count());
    (came.map_err(|error| error.errno()), seen())
}

/// Proves R14.4.
#[test]
fn each_set_of_fields_is_asked_for() {
    type All = (CompletionTs, CompletionWallclock, DlidPathBits);
    fn asked<F: WcFields>() -> String {
        let _cq = queue::<F>();
        seen()
    }
    assert_eq!(asked::<()>(), "cq_ex 40, 0, 0x3f, 0, 0, true");
    seen();
    assert_eq!(asked::<CompletionTs>(), "cq_ex 40, 0, 0xbf, 0, 0, true");
    seen();
    let clocked = asked::<(CompletionWallclock, DlidPathBits)>();
    assert_eq!(clocked, "cq_ex 40, 0, 0x87f, 0, 0, true");
    assert_eq!(seen(), "start(0) start(0) no cq");
    assert_eq!(asked::<All>(), "cq_ex 40, 0, 0x8ff, 0, 0, true");
    let pd = context(ALL).alloc_pd().unwrap();
    let lane = pd.alloc_lane().unwrap();
    seen();
    let cq: CompletionQueueEx<CompletionTs, Buf, InLane> = lane.cq(40).fields().create().unwrap();
    assert!(cq.is_single_threaded());
    assert_eq!(seen(), "cq_ex 40, 0, 0xbf, 1, 1, true");
    REFUSED.set((libc::EOPNOTSUPP, 0));
    let cq: CompletionQueueEx<CompletionTs, Buf, InLane> = lane.cq(40).fields().create().unwrap();
    assert!(!cq.is_single_threaded());
    assert_eq!(seen(), "cq_ex 40, 0, 0xbf, 1, 1, true cq_ex 40, 0, 0xbf, 0, 0, true");
}

/// Proves R14.6.
#[test]
fn what_a_device_or_a_library_lacks_is_refused() {
    let refused = |size| {
        let error = context(size).cq(40).fields::<CompletionTs>().create::<Buf>().unwrap_err();
        (error.verb(), error.errno())
    };
    REFUSED.set((0, libc::EOPNOTSUPP));
    assert_eq!(refused(ALL), ("ibv_create_cq_ex", Some(libc::EOPNOTSUPP)));
    assert_eq!(seen(), "cq_ex 40, 0, 0xbf, 0, 0, true");
    assert_eq!(refused(ALL - 1), ("ibv_create_cq_ex", Some(libc::EOPNOTSUPP)));
    assert_eq!(seen(), "");
    REFUSED.set((0, libc::ENOMEM));
    assert_eq!(refused(ALL), ("ibv_create_cq_ex", Some(libc::ENOMEM)));
}

/// Start and end are paired: a next that finds nothing is followed by an end, and a start that
/// finds nothing is not.
/// Proves R14.1, R14.2.
#[test]
fn each_start_that_succeeds_has_its_end() {
    use Shown::*;
    let mut cq = queue::<()>();
    assert_eq!(polled(&mut cq, []), (Ok(0), "start(0)".into()));
    let (came, calls) = polled(&mut cq, [Ok(Sent), Ok(Failed)]);
    assert_eq!(came, Ok(2));
    assert_eq!(calls, "start(0) qp_num opcode next qp_num vendor_err next end");
    // A full batch ends without another next.
    let (came, calls) = polled(&mut cq, [Ok(Sent); 20]);
    assert_eq!(came, Ok(16));
    assert!(calls.ends_with("next qp_num opcode end"), "{calls}");
    assert_eq!(calls.matches("next").count(), 15);
    // An error after some completions: they are returned, and the next poll reports the error.
    let (came, calls) = polled(&mut cq, [Ok(Sent), Err(libc::EIO)]);
    assert_eq!((came, &*calls), (Ok(1), "start(0) qp_num opcode next end"));
    let (came, calls) = polled(&mut cq, [Err(libc::EINVAL)]);
    assert_eq!((came, &*calls), (Err(Some(libc::EIO)), "start(0)"));
    assert_eq!(polled(&mut cq, []), (Err(Some(libc::EIO)), "".into()), "a dead queue is not asked");
}

/// R14.3.
/// Proves R14.3.
#[test]
fn a_device_that_loses_completions_is_polled_singly() {
    IS_SINGLE.set(true);
    let mut cq = queue::<()>();
    let (came, calls) = polled(&mut cq, [Ok(Shown::Sent); 2]);
    assert_eq!(came, Ok(2));
    assert_eq!(calls, "start(0) qp_num opcode end start(0) qp_num opcode end start(0)");
    let (came, calls) = polled(&mut cq, [Ok(Shown::Sent); 20]);
    assert_eq!(
        (came, calls.matches("start").count(), calls.matches("end").count()),
        (Ok(16), 16, 16)
    );
    IS_SINGLE.set(false);
}

/// Fields that a completion does not have, and fields that were not requested, are not read.
#[test]
fn nothing_else_is_read() {
    fn calls<F: WcFields>(shown: Shown, flags: c_uint) -> String {
        let mut cq = queue::<F>();
        play([Ok(shown)]);
        WC_FLAGS.set(flags);
        seen();
        let (completion, _) = cq.poll_one().unwrap().unwrap();
        std::mem::forget(completion);
        WC_FLAGS.set(2);
        seen()
    }
    const RECEIVED: &str = "start(0) qp_num opcode byte_len wc_flags_";
    // With a GRH, with nothing, with immediate data, with an invalidated key.
    for (flags, imm_data) in [(1, ""), (0, ""), (2, " imm_data"), (8, " imm_data")] {
        assert_eq!(calls::<()>(Shown::Received, flags), format!("{RECEIVED}{imm_data} end"));
        let datagram = format!("{RECEIVED}{imm_data} src_qp slid sl end");
        assert_eq!(calls::<()>(Shown::Datagram, flags), datagram);
    }
    assert_eq!(calls::<CompletionTs>(Shown::Sent, 0), "start(0) qp_num opcode ts end");
    let clock = "start(0) qp_num opcode wallclock end";
    assert_eq!(calls::<CompletionWallclock>(Shown::Sent, 0), clock);
    assert_eq!(calls::<DlidPathBits>(Shown::Sent, 0), "start(0) qp_num opcode end");
    let datagram = format!("{RECEIVED} src_qp slid sl dlid_path_bits end");
    assert_eq!(calls::<DlidPathBits>(Shown::Datagram, 0), datagram);
}

/// The promised fields of a completion are read, and the requested ones, each once.
/// Proves R14.4.
#[test]
fn fields_are_read_where_they_mean_something() {
    type All = (CompletionTs, CompletionWallclock, DlidPathBits);
    let mut cq = queue::<All>();
    let mut first = |shown| {
        play([Ok(shown)]);
        seen();
        let (completion, fields) = cq.poll_one().unwrap().unwrap();
        let path_bits = fields.dlid_path_bits();
        let times = (fields.completion_ts(), fields.completion_wallclock_ns());
        let status = completion.status().map_err(|error| (error.status, error.vendor_err));
        let told = (status, completion.byte_len(), completion.imm_data(), completion.qp_num());
        std::mem::forget(completion);
        (told, path_bits, times, seen())
    };
    let times = (Some(u64::MAX - 1), Some(1 << 60));
    let calls = "start(0) qp_num opcode ts wallclock end".to_owned();
    assert_eq!(first(Shown::Sent), ((Ok(()), None, None, 17), None, times, calls));
    let calls = "start(0) qp_num vendor_err end".to_owned();
    let failed = Err((WcStatus::WrFlush, 77));
    assert_eq!(first(Shown::Failed), ((failed, None, None, 17), None, (None, None), calls));
    let calls = "start(0) qp_num opcode ts wallclock byte_len wc_flags_ imm_data end".to_owned();
    assert_eq!(first(Shown::Received), ((Ok(()), Some(5), Some(9), 17), None, times, calls));
    let calls = "start(0) qp_num opcode ts wallclock byte_len wc_flags_ imm_data src_qp slid sl \
                 dlid_path_bits end";
    let told = (Ok(()), Some(5), Some(9), 17);
    assert_eq!(first(Shown::Datagram), (told, Some(6), times, calls.to_owned()));
}

/// The remaining completions of a poll keep their fields, also after an ordinary poll.
/// Proves R14.5.
#[test]
fn fields_stay_with_their_completions() {
    let mut cq = queue::<CompletionTs>();
    play([Ok(Shown::Sent), Ok(Shown::Failed), Ok(Shown::Sent)]);
    let mut at = |_| {
        let (completion, fields) = cq.poll().unwrap().next().unwrap();
        std::mem::forget(completion);
        fields.completion_ts()
    };
    assert_eq!([0, 1, 2].map(&mut at), [Some(u64::MAX - 1), None, Some(u64::MAX - 1)]);
    seen();
    play([Ok(Shown::Sent)]);
    let ordinary: &mut CompletionQueue = &mut cq;
    drop(ordinary.poll().unwrap());
    assert_eq!(seen(), "start(0) qp_num opcode ts next end");
    let (completion, fields) = cq.poll_one().unwrap().unwrap();
    std::mem::forget(completion);
    assert_eq!(fields.completion_ts(), Some(u64::MAX - 1));
    assert_eq!(seen(), "");
}

/// A queue that is put in place of another does not have its fields.
/// Proves R14.4.
#[test]
fn a_queue_that_was_exchanged_is_refused() {
    let (mut timed, mut plain) = (queue::<CompletionTs>(), queue::<()>());
    std::mem::swap::<CompletionQueue>(&mut timed, &mut plain);
    assert_eq!(polled(&mut timed, []), (Err(Some(libc::EINVAL)), "".into()));
    assert_eq!(plain.poll_one().unwrap_err().errno(), Some(libc::EINVAL));
    std::mem::swap::<CompletionQueue>(&mut timed, &mut plain);
    assert_eq!(polled(&mut timed, []), (Ok(0), "start(0)".into()));
}
