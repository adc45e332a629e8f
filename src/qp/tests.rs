//! Tests with behaviour that no device here has by itself: post errors without `bad_wr`, or with a
//! wrong one.

#![allow(unsafe_code)] // replaces functions of a provider

use crate::provider_tests::{SetControl, device_with};
use std::ffi::c_int;
use std::ptr;

use super::*;
use crate::completion::Direction;
use crate::loopback::Fabric;
use crate::post::chain::RecvPost;
use crate::post::{PostErrorKind, Refusal};
use crate::prelude::*;
use crate::qp::Drained;
use crate::state::QpState;
use crate::sys::types::{ibv_recv_wr, ibv_send_wr};

crate::profile! { Chosen { signaling: Selective } }
crate::profile! { Windowed { entry: AnyBuf } }

unsafe extern "C" fn send_silent(
    _: *mut ibv_qp,
    _: *mut ibv_send_wr,
    _: *mut *mut ibv_send_wr,
) -> c_int {
    libc::EINVAL
}

unsafe extern "C" fn send_wrong(
    _: *mut ibv_qp,
    _: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller passes a writable pointer.
    unsafe { *bad = ptr::dangling_mut() };
    libc::EINVAL
}

unsafe extern "C" fn recv_silent(
    _: *mut ibv_qp,
    _: *mut ibv_recv_wr,
    _: *mut *mut ibv_recv_wr,
) -> c_int {
    libc::EINVAL
}

thread_local! {
    static SEEN: std::cell::Cell<i32> = const { std::cell::Cell::new(-1) };
}

/// Records the number of elements, and fails as if the queue were full.
unsafe extern "C" fn send_counting(
    _: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller passes a valid list.
    SEEN.set(unsafe { (*wr).num_sge });
    // SAFETY: the caller passes a writable pointer.
    unsafe { *bad = wr };
    libc::ENOMEM
}

unsafe extern "C" fn poll_dead(
    _: *mut crate::sys::types::ibv_cq,
    _: c_int,
    _: *mut crate::sys::types::ibv_wc,
) -> c_int {
    -1
}

/// A queue pair that claims to be in RTS. Nothing is sent here.
struct Bench<P: Profile<Entry = Buf, Threads = AnyThread>> {
    qp: QueuePair<Rc, Rts, P>,
    cq: CompletionQueue,
    pool: Pool,
}

impl<P: Profile<Entry = Buf, Threads = AnyThread>> Bench<P> {
    fn new() -> Self
    where
        P::Receive: crate::rules::UsesOwnQueue,
    {
        let context = Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(32).unwrap();
        let pool = pd.create_pool(8, 64).unwrap();
        let depth = Depth { send: 4, recv: 4 };
        let qp: QueuePair<Rc, Reset, P> = pd.create_qp(&cq, &cq, depth).unwrap();
        Bench { qp: QueuePair::from_core(qp.core), cq, pool }
    }

    fn ops(&mut self) -> *mut crate::sys::types::ibv_context_ops {
        // SAFETY: the queue pair and its context are alive.
        let context = unsafe { (*self.qp.core.qp()).context };
        // SAFETY: the context is live as long as its queue pair; no reference is made.
        unsafe { &raw mut (*context).ops }
    }

    fn buf(&self) -> Buf {
        self.pool.take().unwrap()
    }

    /// After the queue is gone, each posted buffer is back, once.
    fn end(self, orphaned: usize) {
        let Bench { qp, mut cq, pool } = self;
        let is_ring = !SendInFlight::<P>::MARKED;
        qp.destroy().unwrap();
        assert_eq!(pool.reclaim(&mut cq), 0, "not before the queue was polled empty");
        let orphaned = if is_ring { 0 } else { orphaned };
        assert_eq!(pool.available(), pool.count() - orphaned);
        assert_eq!(cq.poll().unwrap().count(), 0);
        assert_eq!(pool.reclaim(&mut cq), 0, "back by itself");
        assert_eq!(pool.available(), pool.count());
        assert_eq!(cq.unbooked(), cq.capacity());
    }
}

fn silent_send<P: Profile<Entry = Buf, Receive = OwnRq, Threads = AnyThread>>(
    op: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
) where
    P::MaxSendSge: crate::work::limits::Sges<1>,
{
    let mut bench = Bench::<P>::new();
    // SAFETY: the context is alive, and nothing else uses it.
    unsafe { (*bench.ops()).post_send = Some(op) };
    let [a, b] = [bench.buf(), bench.buf()];
    let error = post_send!(bench.qp, [wr::Send::new(a), wr::Send::new(b)]).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::OutcomeUnknown { errno: libc::EINVAL });
    assert_eq!(error.accepted(), 0);
    assert_eq!(error.into_rejected().count(), 0, "the device may own them");
    assert_eq!(bench.pool.available(), 6);

    let c = bench.buf();
    let error = bench.qp.post_send(wr::Send::new(c)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::Poisoned);
    assert_eq!(error.into_rejected().count(), 1);
    let refused = bench.qp.counters().refused(Direction::Send, Refusal::Device);
    assert_eq!(refused, 2, "the list, and the one after it");
    assert_eq!(bench.qp.send_room(), 0);
    bench.end(2);
}

/// Proves R8.20, R9.4.
#[test]
fn a_send_of_unknown_outcome_stays_with_the_device() {
    silent_send::<DefaultProfile>(send_silent);
    silent_send::<Chosen>(send_silent);
}

/// Proves R9.4.
#[test]
fn a_bad_wr_that_is_not_in_the_list_tells_nothing() {
    silent_send::<DefaultProfile>(send_wrong);
    silent_send::<Chosen>(send_wrong);
}

/// Proves R9.4.
#[test]
fn a_receive_of_unknown_outcome_stays_with_the_device() {
    let mut bench = Bench::<DefaultProfile>::new();
    // SAFETY: the context is alive, and nothing else uses it.
    unsafe { (*bench.ops()).post_recv = Some(recv_silent) };
    let queue = &mut bench.qp.core.recv;
    let buf = bench.pool.take().unwrap();
    let mut slot = crate::work::request::RecvSlot::new();
    let at = &raw mut slot;
    let mut post = RecvPost::<Rc, DefaultProfile>::new(queue);
    // SAFETY: the slot is a local that lives until the post.
    let pending = unsafe { post.emit(wr::Recv::new(buf), at, ptr::null_mut()) };
    // SAFETY: one work request was emitted into the slot.
    let error = unsafe { post.post([pending.entry], (pending.known, ()), at.cast(), at.cast()) }
        .unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::OutcomeUnknown { errno: libc::EINVAL });
    assert_eq!(error.into_rejected().count(), 0);
    assert_eq!(bench.qp.recv_room(), 0);
    bench.end(1);
}

/// Proves R3.3.
#[test]
fn a_buffer_of_no_bytes_is_no_element() {
    crate::profile! { Lists { max_send_sge: 4, entry: BufList } }

    let mut bench = Bench::<DefaultProfile>::new();
    // SAFETY: the context is alive, and nothing else uses it.
    unsafe { (*bench.ops()).post_send = Some(send_counting) };
    for (len, elements) in [(0, 0), (1, 1)] {
        let mut buf = bench.buf();
        buf.set_len(len);
        let back = bench.qp.post_send(wr::Send::new(buf)).unwrap_err().into_rejected();
        assert_eq!((SEEN.get(), back.count()), (elements, 1));
    }
    let _ = bench.qp.post_send(wr::Send::inline(&[])).unwrap_err();
    assert_eq!(SEEN.get(), 0);

    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    let pool = pd.create_pool(3, 8).unwrap();
    let qp: QueuePair<Rc, Reset, Lists> =
        pd.create_qp(&cq, &cq, Depth { send: 2, recv: 0 }).unwrap();
    let mut qp: QueuePair<Rc, Rts, Lists> = QueuePair::from_core(qp.core);
    // SAFETY: the queue pair is alive.
    let context = unsafe { (*qp.core.qp()).context };
    // SAFETY: its context is, too, and nothing else uses it.
    unsafe { (*context).ops.post_send = Some(send_counting) };
    let bufs = [0, 3, 0].map(|len| {
        let mut buf = pool.take().unwrap();
        buf.set_len(len);
        buf
    });
    let mut back = qp.post_send(wr::Send::new(bufs)).unwrap_err().into_rejected();
    assert_eq!((SEEN.get(), back.next().unwrap().len()), (1, 3));
    let list: BufList = (0..3).map(|_| pool.take()).map_while(|buf| buf).collect();
    assert_eq!(list.len(), 3);

    let parts: [(&[u8], &[u8], i32); 4] =
        [(b"", b"", 0), (b"", b"a", 1), (b"a", b"", 1), (b"a", b"b", 2)];
    for (one, two, elements) in parts {
        let _ = qp.post_send(wr::Send::inline_list([one, b"", two])).unwrap_err();
        assert_eq!(SEEN.get(), elements);
    }
    let _ = qp.post_send(wr::Send::inline_list([])).unwrap_err();
    assert_eq!(SEEN.get(), 0);
}

/// Slices whose total exceeds 32 bits, and one that does so by itself. Such a sum would look like a
/// small number.
/// Proves R2.8.
#[test]
#[cfg(all(target_pointer_width = "64", not(miri)))] // Miri allocates mapped memory at once
fn inline_slices_do_not_wrap() {
    use crate::memory::own::map::Map;
    crate::profile! { Lists { max_send_sge: 4 } }

    let crate::loopback::Pair { mut a, .. } = crate::loopback::pair_of::<Lists>().unwrap();
    // Read-only zeroes, which the system can map regardless of its memory.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let map = Map::new((1 << 32) + 1, 4096, libc::PROT_READ, flags, None).unwrap();
    // SAFETY: the mapping is readable, nothing writes to it, and it outlives its bytes.
    let bytes = unsafe { map.bytes().as_ref() };
    let half = &bytes[..1 << 31];
    let parts: [([&[u8]; 2], u64); 3] = [
        ([half, half], 1 << 32),
        // A length above 32 bits is reported as the maximum of an element.
        ([&bytes[..1 << 32], b""], u32::MAX.into()),
        ([bytes, b"1"], 1 << 32),
    ];
    for (slices, asked) in parts {
        let error = a.post_send(wr::Send::inline_list(slices)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::InlineTooLong { asked, max: 64 });
    }
    let error = a.post_send(wr::Send::inline_slice(bytes)).unwrap_err();
    let asked = u32::MAX.into();
    assert_eq!(error.kind(), PostErrorKind::InlineTooLong { asked, max: 64 });
}

/// Proves R10.12.
#[test]
fn a_dead_completion_queue_is_an_error() {
    let mut bench = Bench::<DefaultProfile>::new();
    // SAFETY: the context is alive, and nothing else uses it.
    unsafe { (*bench.ops()).poll_cq = Some(poll_dead) };
    let error = bench.cq.poll().expect_err("the queue is dead");
    assert_eq!(error.verb(), "ibv_poll_cq");
    assert!(bench.cq.poll_one().is_err());
}

type PollCq = unsafe extern "C" fn(
    *mut crate::sys::types::ibv_cq,
    c_int,
    *mut crate::sys::types::ibv_wc,
) -> c_int;

thread_local! {
    /// The device's own poll, and how many polls return 0 before it is called.
    static LATE: std::cell::Cell<(Option<PollCq>, u64)> = const { std::cell::Cell::new((None, 0)) };
}

/// A device that flushes late (R7.15).
unsafe extern "C" fn poll_late(
    cq: *mut crate::sys::types::ibv_cq,
    entries: c_int,
    wc: *mut crate::sys::types::ibv_wc,
) -> c_int {
    let (poll, left) = LATE.get();
    if left != 0 {
        LATE.set((poll, left - 1));
        return 0;
    }
    // SAFETY: the arguments come from the caller, which keeps the contract of the device's
    // poll.
    poll.map_or(0, |poll| unsafe { poll(cq, entries, wc) })
}

/// A queue pair in ERR with posted receives, on a device whose first `polls` polls return 0.
fn late(polls: u64) -> (QueuePair<Rc, crate::terms::state::Err>, CompletionQueue, Pool) {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(32).unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let qp: QueuePair<Rc, Reset> = pd.create_qp(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let mut qp = qp.modify(init).unwrap();
    for _ in 0..3 {
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    }
    let qp = qp.to_error().unwrap();
    // SAFETY: the queue pair is alive.
    let context = unsafe { (*qp.core.qp()).context };
    // SAFETY: its context is, too, and nothing else uses it.
    let own = unsafe { (*context).ops.poll_cq.replace(poll_late) };
    LATE.set((own, polls));
    (qp, cq, pool)
}

#[test]
fn a_drain_waits_for_a_device_that_flushes_late() {
    let (mut qp, mut cq, pool) = late(500);
    let mut found = 0;
    qp.drain(&mut cq, |_| found += 1).unwrap();
    assert_eq!((found, LATE.get().1, pool.available()), (3, 0, 4));
}

/// The drain ends, reports what is left, and can be repeated. Nothing is lost.
#[test]
fn a_drain_of_a_device_that_does_not_flush_ends() {
    let (mut qp, mut cq, pool) = late(u64::MAX);
    let short = std::time::Duration::from_millis(2);
    for _ in 0..2 {
        let nothing = |_: Drained<'_, Buf>| unreachable!("nothing is flushed");
        let error = qp.drain_within(&mut cq, short, nothing).unwrap_err();
        assert_eq!((error.errno(), pool.available()), (Some(libc::ETIMEDOUT), 1));
        let text = "(0 sends and 3 receives were not flushed within 2ms: the device is late, or \
                    completions were leaked)";
        assert!(error.to_string().ends_with(text), "{error}");
    }
    LATE.set((LATE.get().0, 0));
    let mut found = 0;
    qp.drain(&mut cq, |_| found += 1).unwrap();
    assert_eq!((found, pool.available()), (3, 4));
}

/// After `give_up` a queue pair sends nothing more, not even the marker of a drain, although the
/// device refused to move it to the error state.
///
/// A queue pair whose destruction failed in RTS sends no message when it is drained.
#[cfg(feature = "loopback")]
#[test]
fn what_is_given_up_and_stays_in_rts_sends_nothing() {
    use crate::loopback::LOOPBACK;
    use crate::sys::control::Control;
    let ends = crate::loopback::pair_of::<Chosen>().unwrap();
    let (mut a, mut b, mut cq, pool) = (ends.a, ends.b, ends.cq, ends.pool);
    for _ in 0..2 {
        b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    }
    drop(a.post_send_unsignaled(wr::Send::inline(b"one")).unwrap());
    a.core.handle.set_control(Box::leak(Box::new(Control {
        modify_qp: |_, _, _| Err(libc::EIO),
        ..LOOPBACK
    })));
    let mut a = a.give_up();
    assert_eq!(a.query().unwrap().state, Some(QpState::Rts), "the device did not take it");
    let error = a.post_send(wr::Send::inline(b"two")).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::Poisoned);
    let mut others = 0;
    let limit = std::time::Duration::from_millis(100);
    let drained =
        a.drain_within(&mut cq, limit, |found| others += matches!(found, Drained::Other(_)) as u32);
    assert_eq!(drained.unwrap_err().errno(), Some(libc::EIO));
    while let Some(completion) = cq.poll_one().unwrap() {
        others += (completion.qp_num() == b.qp_num()) as u32;
    }
    assert_eq!(others, 1, "the peer got one message");
}

/// Constant limits are queried once for each context, regardless of the number of queues.
#[cfg(feature = "loopback")]
#[test]
fn limits_are_asked_for_once() {
    use std::cell::Cell;

    use crate::loopback::LOOPBACK;
    use crate::sys::control::Control;
    thread_local! {
        static ASKED: [Cell<u32>; 2] = const { [Cell::new(0), Cell::new(0)] };
    }
    fn note(which: usize) {
        ASKED.with(|asked| asked[which].set(asked[which].get() + 1));
    }
    let control: &'static Control = Box::leak(Box::new(Control {
        query_device: |context| {
            note(0);
            // SAFETY: the arguments are passed on.
            unsafe { (LOOPBACK.query_device)(context) }
        },
        query_port: |context, port| {
            note(1);
            // SAFETY: the arguments are passed on.
            unsafe { (LOOPBACK.query_port)(context, port) }
        },
        ..LOOPBACK
    }));
    let mut context = Fabric::new().open_alone();
    Arc::get_mut(&mut context.handle).unwrap().set_control(control);
    let pd = context.alloc_pd().unwrap();
    let mut all = Vec::new();
    let asked = || ASKED.with(|asked| [asked[0].get(), asked[1].get()]);
    for _ in 0..3 {
        let cq = context.create_cq::<Buf>(64).unwrap();
        let depth = Depth { send: 4, recv: 4 };
        let qp = pd.create_qp::<Uc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
        let qp = qp.modify(init).unwrap();
        let gid = context.query_gid(1, 1).unwrap();
        let (psn, qpn) = (Psn::new(0).unwrap(), Qpn::new(qp.qp_num()).unwrap());
        let qp = qp.modify(UcRtr::new(AddressVector::roce(1, gid, 1), qpn, psn)).unwrap();
        let rts = UcRts { sq_psn: psn, optional: Default::default() };
        all.push(qp.modify(rts).unwrap());
        assert_eq!(asked(), [1, 1]);
    }
    // The MTU may change, and limits datagrams.
    let cq = context.create_cq::<Buf>(64).unwrap();
    let depth = Depth { send: 4, recv: 4 };
    let qp = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth).unwrap();
    let qkey = Qkey::new(1).unwrap();
    let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() }).unwrap();
    let qp = qp.modify(UdRtr::default()).unwrap();
    let _qp = qp.modify(UdRts { sq_psn: Psn::new(0).unwrap(), qkey: None }).unwrap();
    assert_eq!(asked(), [1, 3]);
    // A query by the program reaches the device.
    context.query_device().unwrap();
    assert_eq!(asked(), [2, 3]);
}

/// Destroyed windows leave no state in their queue pair.
#[cfg(feature = "loopback")]
#[test]
fn windows_that_are_gone_are_forgotten() {
    let mut a = crate::loopback::pair_of::<Windowed>().unwrap().a;
    let kept: Vec<_> = (0..3).map(|_| a.alloc_mw().unwrap()).collect();
    for _ in 0..100 {
        drop(a.alloc_mw().unwrap());
    }
    assert!(a.core.windows.all.len() <= 8, "{}", a.core.windows.all.len());
    let alive = a.core.windows.all.iter().filter(|window| window.strong_count() != 0).count();
    assert_eq!(alive, kept.len());
}

/// If the device refuses to destroy a queue pair, the objects that it may still use stay.
/// Proves R10.15.
#[cfg(feature = "loopback")]
#[test]
fn what_a_queue_pair_that_stays_uses_stays() {
    use std::cell::RefCell;

    use crate::loopback::LOOPBACK;
    use crate::sys::control::Control;
    crate::profile! { Served { receive: SharedRq } }
    thread_local! {
        static ENDED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }
    macro_rules! noting {
        ($($verb:ident)*) => {
            Control {
                destroy_qp: |_| Err(libc::EBUSY),
                $($verb: |object| {
                    ENDED.with_borrow_mut(|all| all.push(stringify!($verb)));
                    // SAFETY: the argument is passed on.
                    unsafe { (LOOPBACK.$verb)(object) }
                },)*
                ..LOOPBACK
            }
        };
    }
    let ended = || ENDED.take();
    let control = noting!(destroy_ah destroy_cq destroy_srq dereg_mr dealloc_pd close_device);
    let context = device_with(Fabric::new(), control);
    let pd = context.alloc_pd().unwrap();
    let queue = || context.create_cq::<Buf>(16).unwrap();
    let depth = Depth { send: 4, recv: 4 };
    let ah = || pd.create_ah(AddressVector::roce(1, context.query_gid(1, 1).unwrap(), 1)).unwrap();
    drop((ah(), queue()));
    assert_eq!(ended(), ["destroy_ah", "destroy_cq"]);

    let (sends, receives) = (queue(), queue());
    let mut qp = pd.create_qp::<Ud, DefaultProfile>(&sends, &receives, depth).unwrap();
    qp.add_address_handle(ah()).unwrap();
    drop(qp.destroy().unwrap_err().into_object());
    drop((sends, receives));
    assert_eq!(ended(), [""; 0]);

    let pool = pd.create_pool(4, 64).unwrap();
    let srq = pd.create_srq::<Ud, Buf, crate::qp::Max<1>, ()>(&pool).unwrap();
    let cq = queue();
    drop(pd.create_qp::<Ud, Served>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap());
    drop((cq, srq, pool, pd, context));
    assert_eq!(ended(), ["dereg_mr"]); // nothing is posted
}

/// The completion of a bind arrives after the queue pair and the window are gone. The C object is
/// not touched any more.
#[cfg(feature = "loopback")]
#[test]
fn a_bind_that_completes_after_its_window_ended() {
    use crate::sys::types::ibv_mw;
    thread_local! {
        static DEVICE: std::cell::Cell<Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>> =
            const { std::cell::Cell::new(None) };
    }
    /// Frees a copy. The object itself stays, so that the test can read it.
    unsafe extern "C" fn dealloc(mw: *mut ibv_mw) -> c_int {
        // SAFETY: the object is live, and the device has only its number.
        let copy = Box::into_raw(Box::new(unsafe { ptr::read(mw) }));
        // SAFETY: the copy is a full copy of the original, which is live and which callers no
        // longer use. It is freed once.
        unsafe { DEVICE.get().unwrap()(copy) }
    }
    let ends = crate::loopback::pair_of::<Windowed>().unwrap();
    let (mut a, mut cq, pd) = (ends.a, ends.cq, ends.pd);
    // SAFETY: the queue pair is alive.
    let context = unsafe { (*a.core.qp()).context };
    // SAFETY: its context is, too, and nothing else uses it.
    DEVICE.set(unsafe { (*context).ops.dealloc_mw.replace(dealloc) });
    let region = pd.register::<crate::ext::windows::Windowed<LocalWrite>>(64).unwrap();
    let window = a.alloc_mw().unwrap();
    let mw = window.0.core().mw;
    a.post_send(ext::windows::BindMw::<RemoteRead>::new(window, &region, 0..8).unwrap()).unwrap();
    drop(a);
    // SAFETY: the copy was freed, and the test owns this one.
    let rkey = || unsafe { (*mw).rkey };
    let before = rkey();
    let mut entry = None;
    while entry.is_none() {
        entry = cq.poll_one().unwrap().map(|completion| {
            completion.status().unwrap();
            completion.into_entry()
        });
    }
    assert_eq!(rkey(), before);
    drop(entry);
    // SAFETY: the device allocated it as a box, and nothing has freed it.
    drop(unsafe { Box::from_raw(mw) });
}

/// A queue pair is in SQD when its device reports that it has drained, and not before.
#[test]
fn a_queue_that_drains_is_not_drained() {
    use crate::loopback::{self, LOOPBACK};
    use crate::qp::{AnyQueuePair, Drain};
    use crate::sys::control::Control;
    use std::cell::Cell;
    thread_local! { static DRAINS: Cell<bool> = const { Cell::new(true) } }
    let control = Control {
        query_qp: |qp, mask| {
            // SAFETY: the arguments are passed on.
            let (mut attr, init) = unsafe { (LOOPBACK.query_qp)(qp, mask) }?;
            attr.sq_draining = DRAINS.get().into();
            Ok((attr, init))
        },
        ..LOOPBACK
    };
    let loopback::Pair { mut a, .. } = loopback::pair().unwrap();
    a.core.handle.set_control(Box::leak(Box::new(control)));
    let mut a = AnyQueuePair::from(a);
    a.modify(Drain { notify: false }).unwrap();
    assert_eq!(a.to_sqd().unwrap_err().errno(), Some(libc::EAGAIN));
    assert!(a.as_state::<Sqd>().is_none());
    DRAINS.set(false);
    a.to_sqd().unwrap();
    assert!(a.as_state::<Sqd>().is_some());
}

/// A queue pair is deferred if it uses no more receives of its shared receive queue: in ERR, or if
/// its device is gone. If the device keeps it in its state, it is destroyed at once.
#[cfg(feature = "loopback")]
#[test]
fn only_a_queue_pair_that_uses_no_more_receives_is_deferred() {
    use crate::loopback::LOOPBACK;
    use crate::sys::control::Control;
    crate::profile! { Served { receive: SharedRq } }
    thread_local! { static ERRNO: std::cell::Cell<c_int> = const { std::cell::Cell::new(0) } }
    let control = || Control {
        modify_qp: |qp, attr, mask| match ERRNO.get() {
            // SAFETY: the arguments come from the caller, which keeps the verb's contract.
            0 => unsafe { (LOOPBACK.modify_qp)(qp, attr, mask) },
            errno => Err(errno),
        },
        ..LOOPBACK
    };
    for (errno, is_deferred) in
        [(0, true), (libc::EIO, true), (libc::ENODEV, true), (libc::EINVAL, false)]
    {
        ERRNO.set(0);
        let context = device_with(Fabric::new(), control());
        let pd = context.alloc_pd().unwrap();
        let (cq, pool) = (context.create_cq::<Buf>(20).unwrap(), pd.create_pool(1, 8).unwrap());
        let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
        srq.post_srq_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        let qp = pd.create_qp::<Rc, Served>(&cq, &cq, Depth::on_srq(1, &srq)).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
        let qp = qp.modify(init).unwrap();
        ERRNO.set(errno);
        drop(qp);
        assert_eq!(cq.shared().attachments(), 1 + is_deferred as usize, "{errno}");
    }
}
