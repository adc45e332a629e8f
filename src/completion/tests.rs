//! Tests of properties that the public interface does not show: which polls take the cold path, and
//! which state of destroyed queues is kept.

#![allow(unsafe_code)] // a value shared by threads, and a process limit

use crate::provider_tests::device_with;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::polled_queue::{PolledQueue, Reason};
use crate::loopback;
use crate::loopback::Fabric;
use crate::prelude::*;

crate::profile! { Chosen { signaling: Selective } }
crate::profile! { Shared { receive: SharedRq } }

#[test]
fn a_stand_in_is_asked_as_long_as_there_is_a_reason() {
    let mut queue = crate::sys::types::zeroed();
    let queue = &raw mut queue;
    let polled_queue = PolledQueue::new(queue);
    for reason in [Reason::Held, Reason::Dead] {
        assert!(!polled_queue.take(reason) && !polled_queue.is_on(), "it was not set");
        for _ in 0..2 {
            polled_queue.give(reason);
            assert!(polled_queue.is_on() && polled_queue.polled.load(Ordering::Relaxed) != queue);
        }
        assert!(polled_queue.take(reason) && !polled_queue.is_on());
        assert_eq!(
            (polled_queue.polled.load(Ordering::Relaxed), polled_queue.queue()),
            (queue, queue)
        );
    }
    polled_queue.give(Reason::Held);
    polled_queue.give(Reason::Dead);
    assert!(polled_queue.take(Reason::Held) && polled_queue.is_on());
    assert!(!polled_queue.take(Reason::Held) && polled_queue.is_on());
    assert!(polled_queue.take(Reason::Dead) && !polled_queue.is_on());
}

/// `Debug` reads two numbers, and a resize may come between them.
#[test]
fn debug_of_a_queue_with_more_free_entries_than_its_capacity() {
    let cq: CompletionQueue = Fabric::new().open_device().create_cq(4).unwrap();
    cq.shared.budget.give(5);
    let capacity = cq.capacity();
    let text = format!("{cq:?}, {:?}", cq.handle());
    let each = format!("(0 of {capacity} booked)");
    assert_eq!(text, format!("CompletionQueue{each}, CqHandle{each}"));
}

/// A change that loses a race is repeated on the new value.
#[test]
fn a_change_of_reasons_is_made_of_what_is_there() {
    let polled_queue = PolledQueue::new(std::ptr::null_mut());
    let turns = std::cell::Cell::new(0);
    let before = polled_queue.change(|reasons| {
        if turns.replace(turns.get() + 1) == 0 {
            polled_queue.give(Reason::Dead);
        }
        reasons | Reason::Held as usize
    });
    // A weak compare-and-swap may fail without another change. Then it is repeated.
    assert_eq!(before, Reason::Dead as usize);
    assert!(turns.get() >= 2, "{} turns", turns.get());
    assert!(polled_queue.take(Reason::Dead) && polled_queue.is_on());
    assert!(polled_queue.take(Reason::Held) && !polled_queue.is_on());
}

/// Two threads set reasons at the same time, and a third takes them. Each reason is taken, and the
/// loops end.
#[test]
fn reasons_of_several_threads() {
    const TIMES: usize = if cfg!(miri) { 50 } else { 20_000 };
    /// Any thread may refer to a switch. Its queue is never polled here.
    struct Shared(PolledQueue);
    // SAFETY: its pointers are compared, and not dereferenced.
    unsafe impl Sync for Shared {}
    let shared = Shared(PolledQueue::new(std::ptr::null_mut()));
    let shared = &shared;
    let done = [AtomicBool::new(false), AtomicBool::new(false)];
    std::thread::scope(|scope| {
        for (reason, done) in [Reason::Held, Reason::Dead].into_iter().zip(&done) {
            scope.spawn(move || {
                let Shared(polled_queue) = shared;
                for _ in 0..TIMES {
                    polled_queue.give(reason);
                }
                done.store(true, Ordering::Release);
            });
        }
        let Shared(polled_queue) = shared;
        while !done.iter().all(|done| done.load(Ordering::Acquire)) {
            polled_queue.take(Reason::Held);
            polled_queue.take(Reason::Dead);
        }
    });
    let Shared(polled_queue) = shared;
    polled_queue.take(Reason::Held);
    polled_queue.take(Reason::Dead);
    assert!(!polled_queue.is_on());
}

fn empty(cq: &mut CompletionQueue) {
    while let Some(completion) = cq.poll_one().unwrap() {
        drop(completion);
    }
}

/// The state of a destroyed queue pair is kept while its completions may arrive, and the cold path
/// is taken while it has work to do.
#[test]
fn polls_are_as_quick_as_before() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq::<Buf>(40).unwrap();
    let pool = pd.create_pool(4, 8).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    for outstanding in 0..3 {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
        let mut qp = qp.modify(init).unwrap();
        assert_eq!(cq.shared().attachments(), 1);
        for _ in 0..outstanding {
            qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        }
        drop(qp);
        let is_left = outstanding > 0;
        assert_eq!(cq.shared().attachments(), is_left as usize);
        assert_eq!(cq.shared().polled_queue.is_on(), is_left);
        empty(&mut cq);
        assert_eq!((cq.shared().attachments(), pool.available()), (0, 4));
        assert!(!cq.shared().polled_queue.is_on());
    }
    // A batch that is taken in two parts.
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 0, recv: 4 }).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let mut qp = qp.modify(init).unwrap();
    for _ in 0..4 {
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    }
    let _qp = qp.to_error().unwrap();
    drop(cq.poll().unwrap().next());
    assert!(cq.shared().polled_queue.is_on());
    for left in (0..3).rev() {
        drop(cq.poll_one().unwrap().unwrap());
        assert_eq!(cq.shared().polled_queue.is_on(), left != 0, "{left} are left");
    }
}

/// A server creates and drops queue pairs. No state of destroyed ones is kept, even on the
/// completion queue of their sends.
#[test]
fn queue_pairs_that_were_deferred_are_forgotten() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let sends = context.create_cq::<Buf>(40).unwrap();
    let mut receives = context.create_cq::<Buf>(40).unwrap();
    let pool = pd.create_pool(4, 8).unwrap();
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
    srq.post_srq_recv(crate::wr::Recv::new(pool.take().unwrap())).unwrap();
    for round in 0..20 {
        let qp = pd.create_qp::<Rc, Shared>(&sends, &receives, Depth::on_srq(1, &srq)).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
        drop(qp.modify(init).unwrap());
        assert_eq!(sends.shared().known_elsewhere(), 1, "round {round}");
        for _ in 0..3 {
            empty(&mut receives);
        }
        assert_eq!(receives.shared().endings(), 0, "round {round}");
        assert_eq!(sends.shared().endings(), 0, "round {round}");
    }
}

/// Another thread may have destroyed a deferred queue pair before its completion queue is notified.
/// It is then over like any other.
#[test]
fn a_queue_pair_that_is_gone_is_not_deferred() {
    use super::deferred_destroy::{DeferredDestroy, Over, Rest};
    struct Gone;
    impl Rest for Gone {
        fn destroy(self: Box<Self>, _: &mut Over) {}
    }
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq::<Buf>(40).unwrap();
    let pool = pd.create_pool(1, 8).unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let mut qp = qp.modify(init).unwrap();
    qp.post_recv(crate::wr::Recv::new(pool.take().unwrap())).unwrap();
    let counters = qp.core.counters.clone();
    drop(qp);
    assert_eq!(cq.shared().attachments(), 1);
    cq.shared()
        .knows_deferred(&std::sync::Arc::new(DeferredDestroy::new(Box::new(Gone))), &counters);
    empty(&mut cq);
    assert_eq!((cq.shared().attachments(), pool.available()), (0, 1));
}

/// A device may fail to destroy a deferred queue pair, and then still has its work requests. Its
/// completion queue keeps its reservation and does not declare it over, even when it is closed
/// itself. The other queues that ended are over.
#[test]
fn a_queue_pair_that_the_device_keeps_is_not_over() {
    use super::attachments::{AtEnd, Share};
    use super::deferred_destroy::{DeferredDestroy, Over, Rest};
    use crate::counters::queue_counters::{QueueCounters, Quiet};
    use std::sync::Arc;
    struct Kept;
    impl Rest for Kept {
        fn destroy(self: Box<Self>, _: &mut Over) {}
    }
    let cq: CompletionQueue = Fabric::new().open_device().create_cq(40).unwrap();
    let inbox = cq.shared();
    let capacity = inbox.capacity();
    let [kept, ended, alive] = std::array::from_fn(|_| QueueCounters::new(1).unwrap());
    for (counters, entries) in [(&kept, [1, 2]), (&ended, [3, 4]), (&alive, [5, 6])] {
        inbox.attach("", counters, entries, Share::Both).unwrap();
    }
    assert!(inbox.defer_destroy(&Arc::new(DeferredDestroy::new(Box::new(Kept))), &kept));
    inbox.end(&ended, AtEnd { left: [1, 0], may_be_stale: false }, &mut Quiet::default());
    assert_eq!((inbox.attachments(), capacity - inbox.unbooked()), (3, 3 + 3 + 11));
    let mut over = Over::default();
    inbox.close(&mut over);
    assert_eq!((inbox.attachments(), capacity - inbox.unbooked()), (2, 3 + 11));
    // The queue pairs release their own references.
    assert_eq!([kept, ended, alive].map(|counters| counters.end_one()), [false, true, false]);
    over.give_back();

    // The same if the poller tried to destroy it.
    let cq: CompletionQueue = Fabric::new().open_device().create_cq(40).unwrap();
    let (inbox, counters) = (cq.shared(), QueueCounters::new(1).unwrap());
    inbox.attach("", &counters, [1, 2], Share::Both).unwrap();
    assert!(inbox.defer_destroy(&Arc::new(DeferredDestroy::new(Box::new(Kept))), &counters));
    inbox.note_ended(0);
    let poller = super::inbox::Poller { seen_empty_at: Some(0), ..Default::default() };
    let mut over = Over::default();
    let (watches, to_destroy) = inbox.finish_ended(&poller, &mut over);
    assert_eq!((watches, to_destroy.len(), inbox.endings()), (false, 1, 0));
    inbox.close(&mut over);
    assert_eq!((inbox.attachments(), cq.capacity() - inbox.unbooked()), (1, 3));
    over.give_back();
}

/// A queue pair whose sends and receives complete into two completion queues with budgets. When it
/// ends, each completion queue returns only its own entries.
#[test]
fn each_budget_gets_back_its_own_entries() {
    use super::attachments::{AtEnd, Share};
    use super::deferred_destroy::Over;
    use super::inbox::Poller;
    use crate::counters::queue_counters::{QueueCounters, Quiet, RECEIVE, SEND};
    let context = Fabric::new().open_device();
    let create = || context.cq(16).shared_budget().create().unwrap();
    let (sends, receives): (CompletionQueue, CompletionQueue) = (create(), create());
    let taken = |cq: &CompletionQueue| cq.capacity() - cq.unbooked();
    let counters = QueueCounters::without_ring(1).unwrap();
    sends.shared().attach("", &counters, [9, 0], Share::Sends).unwrap();
    receives.shared().attach("", &counters, [0, 9], Share::Receives).unwrap();
    assert_eq!([&sends, &receives].map(taken), [0, 0], "posts take entries");
    assert!(counters.claims(SEND).unwrap().claim(2) && counters.claims(RECEIVE).unwrap().claim(3));
    assert_eq!([&sends, &receives].map(taken), [2, 3]);
    let (at_end, mut quiet) = (AtEnd { left: [0, 3], may_be_stale: false }, Quiet::default());
    sends.shared().end(&counters, at_end, &mut quiet);
    assert_eq!([&sends, &receives].map(taken), [0, 3]);
    receives.shared().end(&counters, at_end, &mut quiet);
    assert_eq!([&sends, &receives].map(taken), [0, 3], "the poller returns them");
    assert_eq!((sends.shared().attachments(), receives.shared().attachments()), (0, 1));
    let mut over = Over::default();
    receives.shared().note_ended(0);
    let poller = Poller { passed: receives.capacity().into(), ..Poller::default() };
    assert!(!receives.shared().finish_ended(&poller, &mut over).0);
    assert_eq!(([&sends, &receives].map(taken), receives.shared().attachments()), ([0, 0], 0));

    // Both directions in one completion queue, which finds it empty.
    let both = QueueCounters::without_ring(1).unwrap();
    sends.shared().attach("", &both, [9, 9], Share::Both).unwrap();
    assert!(both.claims(SEND).unwrap().claim(4) && both.claims(RECEIVE).unwrap().claim(5));
    sends.shared().end(&both, AtEnd::UNKNOWN, &mut quiet);
    assert_eq!((taken(&sends), sends.shared().endings()), (9, 1));
    sends.shared().note_ended(0);
    let poller = Poller { seen_empty_at: Some(0), ..Poller::default() };
    assert!(!sends.shared().finish_ended(&poller, &mut over).0);
    assert_eq!((taken(&sends), sends.shared().endings()), (0, 0));
    over.give_back();
}

/// The refusal of a reservation says whether polling helps, and how large the completion queue
/// would have to be. After the completion queue is closed, it says that.
#[test]
fn a_reservation_that_is_refused_says_what_helps() {
    use super::attachments::Share;
    use super::deferred_destroy::Over;
    use crate::counters::queue_counters::QueueCounters;
    let context = Fabric::new().open_device();
    let cq: CompletionQueue = context.cq(16).shared_budget().create().unwrap();
    let (inbox, capacity) = (cq.shared(), cq.capacity());
    let counters = || QueueCounters::shared(1, 1).unwrap();
    let attach = |n| inbox.attach("v", &counters(), [0, n], Share::Shared);
    let kind = |result: Result<(), crate::Error>| result.unwrap_err().kind().clone();
    assert!(inbox.budget.take(2), "as posts do");
    let free = capacity - 2;
    assert_eq!(kind(attach(capacity)), ErrorKind::CqFull { asked: capacity, free });
    let enough = capacity + 1;
    assert_eq!(
        kind(attach(enough)),
        ErrorKind::CqTooSmall { asked: enough, free: capacity, enough }
    );
    assert!(attach(free).is_ok());
    assert_eq!(kind(attach(2)), ErrorKind::CqFull { asked: 2, free: 0 });
    assert_eq!(kind(attach(3)), ErrorKind::CqTooSmall { asked: 3, free: 2, enough });
    let both = |n| inbox.check_room_for_both("v", 1000, &counters(), n);
    assert!(both(0).is_ok());
    assert_eq!(kind(both(1)), ErrorKind::CqFull { asked: 1, free: 0 });
    let mut over = Over::default();
    inbox.close(&mut over);
    assert_eq!([both(0), both(1), attach(0)].map(kind), [(); 3].map(|()| ErrorKind::CqGone));
    over.give_back();
}

/// Deferred queue pairs are destroyed in the order in which they were created. Their tags are
/// free again when they are detached.
#[test]
fn deferred_queue_pairs_end_in_order() {
    use super::attachments::Share;
    use super::deferred_destroy::{DeferredDestroy, Over, Rest};
    use crate::counters::queue_counters::QueueCounters;
    use std::sync::Arc;
    struct Kept;
    impl Rest for Kept {
        fn destroy(self: Box<Self>, _: &mut Over) {}
    }
    let cq: CompletionQueue = Fabric::new().open_device().create_cq(40).unwrap();
    let all: Vec<_> = (0..20).map(|_| QueueCounters::new(1).unwrap()).collect();
    let mut deferred: Vec<_> =
        all.iter().map(|_| Arc::new(DeferredDestroy::new(Box::new(Kept)))).collect();
    for counters in &all {
        cq.shared().attach("", counters, [1, 1], Share::Both).unwrap();
    }
    for (counters, deferred) in all.iter().zip(&deferred).rev() {
        assert!(cq.shared().defer_destroy(deferred, counters));
    }
    let taken = cq.shared().take_deferred();
    assert!(taken.iter().zip(&deferred).all(|(one, other)| Arc::ptr_eq(one, other)));
    assert_eq!(taken.len(), deferred.drain(..).count());
    for counters in &all {
        cq.shared().detach(counters);
        assert_eq!(Arc::strong_count(counters), 1);
    }
    assert_eq!((cq.shared().attachments(), cq.unbooked()), (0, cq.capacity()));
}

/// A completion queue that is never empty has returned the completions of a queue when as many have
/// passed as it could ever hold, even if it is smaller now.
#[test]
fn a_queue_is_over_when_as_many_completions_passed_as_there_was_room_for() {
    use super::attachments::{AtEnd, Share};
    use super::deferred_destroy::Over;
    use super::inbox::Poller;
    use crate::counters::queue_counters::{QueueCounters, Quiet};
    let cq: CompletionQueue = Fabric::new().open_device().create_cq(40).unwrap();
    let (inbox, counters) = (cq.shared(), QueueCounters::new(1).unwrap());
    inbox.attach("", &counters, [3, 4], Share::Both).unwrap();
    for size in [100, 20] {
        inbox.resize(size, || Ok(size)).unwrap();
    }
    inbox.end(&counters, AtEnd::UNKNOWN, &mut Quiet::default());
    inbox.note_ended(7);
    let mut over = Over::default();
    for (passed, watches) in [(7, true), (27, true), (106, true), (107, false)] {
        let poller = Poller { passed, watches: true, ..Poller::default() };
        assert_eq!(inbox.finish_ended(&poller, &mut over).0, watches, "{passed}");
        assert_eq!(inbox.unbooked(), if watches { 13 } else { 20 });
    }
    over.give_back();
}

/// A completion of a ring that releases nothing may still arrive, so its tag is reserved until that
/// is impossible.
#[test]
fn a_ring_is_remembered_as_long_as_its_completions() {
    let ends = loopback::pair_of::<Chosen>().unwrap();
    let (mut a, b, mut cq, pool) = (ends.a, ends.b, ends.cq, ends.pool);
    let region = ends.pd.register::<RemoteWrite>(8).unwrap();
    let before = cq.shared().attachments();
    let mut buf = pool.take().unwrap();
    buf.set_len(8);
    a.post_send(wr::RdmaWrite::new(buf, region.remote().write())).unwrap();
    while a.sends_outstanding() != 0 {
        let completion = cq.poll_one().unwrap();
        completion.into_iter().for_each(|one| assert!(a.complete(one).is_ok()));
    }
    a.destroy().unwrap();
    assert_eq!((cq.shared().attachments(), cq.shared().polled_queue.is_on()), (before, true));
    empty(&mut cq);
    assert_eq!((cq.shared().attachments(), cq.shared().polled_queue.is_on()), (before / 2, false));
    drop(b);
}

/// A channel whose events cannot be read any more, because its device is gone.
#[test]
#[cfg_attr(miri, ignore = "Miri cannot wait on a descriptor")]
fn a_wait_for_events_that_cannot_be_read() {
    use crate::events::{WaitFor, wait};
    use crate::loopback::LOOPBACK;
    use crate::sys::control::Control;
    use crate::sys::types::{ibv_comp_channel, ibv_cq};
    use std::ffi::{c_int, c_void};
    unsafe extern "C" fn gone(
        _: *mut ibv_comp_channel,
        _: *mut *mut ibv_cq,
        _: *mut *mut c_void,
    ) -> c_int {
        libc::EIO
    }
    let gone = Control { get_cq_event: gone, ..LOOPBACK };
    // An armed queue raises its event at once.
    let fabric = Fabric::new();
    fabric.inject(loopback::Script::seeded(0).with(loopback::Fault::SpuriousEvent.always()));
    let context = device_with(fabric, gone);
    let mut channel = context.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = context.cq(4).channel(&channel).create().unwrap();
    let short = Duration::from_millis(1);
    let refused = [
        wait([WaitFor::Cqs(&mut channel, &mut [&mut cq])], Some(short)).err(),
        channel.try_event().err(),
        channel.wait_timeout(&mut cq, short).err(),
        channel.wait_solicited(&mut cq, Some(short)).err(),
        channel.wait_any(&mut [&mut cq], Some(short)).err(),
    ];
    for error in refused {
        let error = error.expect("no event can be read");
        assert_eq!((error.verb(), error.errno()), ("ibv_get_cq_event", Some(libc::EIO)));
    }
}

/// A descriptor blocks only while a wait without a timeout reads it. Every other call makes it
/// non-blocking before it reads, because it might be readable without an event.
#[test]
#[cfg_attr(miri, ignore = "fcntl(2)")]
fn only_a_wait_makes_a_channel_block() {
    use std::os::fd::AsRawFd;
    let context = Fabric::new().open_device();
    let mut channel = context.create_comp_channel().unwrap();
    let blocks = |channel: &CompletionChannel| {
        // SAFETY: a system call on an open descriptor, without pointers.
        let flags = unsafe { libc::fcntl(channel.as_raw_fd(), libc::F_GETFL) };
        flags & libc::O_NONBLOCK == 0
    };
    for _ in 0..3 {
        channel.set_blocking(true).unwrap();
        assert!(blocks(&channel));
        channel.take_event().unwrap();
        assert!(!blocks(&channel));
        channel.set_blocking(true).unwrap();
        assert!(blocks(&channel));
        assert_eq!(channel.try_event().unwrap(), None);
        assert!(!blocks(&channel));
    }
}

const NO_DESCRIPTORS: &str = "PROVERBS_NO_DESCRIPTORS";

/// Started by the test below: poll(2) rejects more descriptors than a process may have.
#[test]
#[ignore = "started by a_wait_that_cannot_sleep_says_so"]
fn waits_without_descriptors() {
    if std::env::var_os(NO_DESCRIPTORS).is_none() {
        return;
    }
    let context = Fabric::new().open_device();
    let mut channel = context.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = context.cq(4).channel(&channel).create().unwrap();
    let mut events = context.events().unwrap();
    let short = Duration::from_millis(1);
    assert!(channel.wait_timeout(&mut cq, short).unwrap().is_empty());
    assert_eq!(events.wait_timeout(short).unwrap(), None);

    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a local.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) }, 0);
    let timeout = Some(short);
    let refused = [
        channel.wait_timeout(&mut cq, short).err(),
        channel.wait_solicited(&mut cq, timeout).err(),
        channel.wait_any(&mut [&mut cq], timeout).err(),
        events.wait_timeout(short).err(),
        channel.wait(&mut cq).err(),
        events.wait().err(),
    ];
    for error in refused {
        let error = error.expect("nothing can be waited for");
        assert_eq!((error.verb(), error.errno()), ("poll", Some(libc::EINVAL)));
        assert!(error.to_string().contains("(RLIMIT_NOFILE is below "), "{error}");
    }
}

/// A wait that ignored this would loop forever instead of sleeping.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_wait_that_cannot_sleep_says_so() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["completion::tests::waits_without_descriptors", "--exact", "--ignored", "--quiet"])
        .env(NO_DESCRIPTORS, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

/// A queue that is not armed would never wake its program, so each wait returns the error.
#[test]
fn a_wait_on_a_queue_that_is_not_armed_says_so() {
    use crate::completion::Notify;
    use crate::sys::types::ibv_cq;
    unsafe extern "C" fn refuse(_: *mut ibv_cq, _: i32) -> i32 {
        libc::EIO
    }
    let context = Fabric::new().open_device();
    let mut channel = context.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = context.cq(4).channel(&channel).create().unwrap();
    // SAFETY: the context is live. This is a pointer, because other threads may read the context at
    // the same time.
    let notify = unsafe { &raw mut (*context.handle.as_ptr()).ops.req_notify_cq };
    // SAFETY: the context is live, and no other thread reads or writes the field at this moment.
    let device = unsafe { notify.replace(Some(refuse)) };
    let time = Duration::from_millis(1);
    let refused = [
        channel.wait_timeout(&mut cq, time).err(),
        channel.wait_solicited(&mut cq, Some(time)).err(),
        channel.wait_any(&mut [&mut cq], Some(time)).err(),
        cq.poll_or_arm(Notify::Any).err(),
    ];
    for error in refused {
        let error = error.expect("it is not armed");
        assert_eq!((error.verb(), error.errno()), ("ibv_req_notify_cq", Some(libc::EIO)));
    }
    // SAFETY: the context is live, and no other thread reads or writes the field at this moment.
    unsafe { notify.write(device) };
}

/// A completion that arrives before the queue is armed raises no event.
/// Proves R13.3.
#[test]
fn a_queue_is_polled_again_after_it_is_armed() {
    use crate::completion::Notify;
    use crate::sys::types::{ibv_cq, ibv_wc};
    use std::cell::RefCell;
    thread_local!(static CALLS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) });
    unsafe extern "C" fn poll(_: *mut ibv_cq, _: i32, _: *mut ibv_wc) -> i32 {
        CALLS.with_borrow_mut(|calls| calls.push("poll"));
        0
    }
    unsafe extern "C" fn arm(_: *mut ibv_cq, _: i32) -> i32 {
        CALLS.with_borrow_mut(|calls| calls.push("arm"));
        0
    }
    let context = Fabric::new().open_device();
    let channel = context.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = context.cq(4).channel(&channel).create().unwrap();
    // SAFETY: the context is live. This is a pointer, because other threads may read the context.
    let ops = unsafe { &raw mut (*context.handle.as_ptr()).ops };
    // SAFETY: the context is live, and nothing else reads or writes these fields here.
    let device = unsafe {
        let notify = (&raw mut (*ops).req_notify_cq).replace(Some(arm));
        ((&raw mut (*ops).poll_cq).replace(Some(poll)), notify)
    };
    assert_eq!(cq.poll_or_arm(Notify::Any).unwrap().len(), 0);
    // SAFETY: as above.
    unsafe {
        (&raw mut (*ops).poll_cq).write(device.0);
        (&raw mut (*ops).req_notify_cq).write(device.1);
    }
    assert_eq!(CALLS.take(), ["poll", "arm", "poll"]);
}

/// The wr_ids of a ring contain no id of the program, however high the sequence number is.
#[test]
fn a_completion_of_a_ring_has_no_number() {
    use crate::memory::header::word;
    use crate::sys::types::{ibv_cq, ibv_wc};
    unsafe extern "C" fn one(_: *mut ibv_cq, _: i32, to: *mut ibv_wc) -> i32 {
        let wr_id = 0xabcd_0001 << 32 | u64::from(word::of_ring(5));
        // SAFETY: the caller has room for at least one completion, for which zeroes are a valid
        // value.
        unsafe { to.write(ibv_wc { wr_id, ..std::mem::zeroed() }) };
        1
    }
    let context = Fabric::new().open_device();
    let mut cq: CompletionQueue = context.create_cq(4).unwrap();
    // SAFETY: the context is live. This is a pointer, because polls read the context at the same
    // time.
    let poll_cq = unsafe { &raw mut (*context.handle.as_ptr()).ops.poll_cq };
    // SAFETY: the context is live, and no other thread reads or writes the field at this moment.
    let device = unsafe { poll_cq.replace(Some(one)) };
    let completion = cq.poll_one().unwrap().unwrap();
    assert_eq!((completion.status(), completion.id()), (Ok(()), 0));
    drop(completion);
    // SAFETY: the completion queue keeps the context, and no other thread reads or writes the field
    // at this moment.
    unsafe { poll_cq.write(device) };
}

/// A device may have no completion vectors, and may report any number of them.
#[test]
fn as_many_completion_vectors_as_the_device_has() {
    let context = Fabric::new().open_device();
    for (count, vectors) in [(0, 0), (-1, 0), (1, 1), (3, 3)] {
        // SAFETY: the context is live, and only this thread uses it.
        unsafe { (*context.handle.as_ptr()).num_comp_vectors = count };
        assert_eq!(context.comp_vectors().len(), vectors);
    }
}

/// While a polled completion is left for the next poll, no queue counts as over: the completion may
/// belong to it, and its buffer would have two owners.
#[test]
fn nothing_is_reclaimed_while_a_completion_is_left() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq::<Buf>(40).unwrap();
    let pool = pd.create_pool(3, 8).unwrap();
    let posted = |count| {
        let depth = Depth { send: 1, recv: 2 };
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
        let mut qp = qp.modify(init).unwrap();
        (0..count).for_each(|_| qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap());
        qp
    };
    let (orphaned, flushed) = (posted(1), posted(2).to_error().unwrap());
    drop(orphaned);
    // The iterator leaves one of two completions.
    assert!(cq.poll().unwrap().next().is_some());
    assert_eq!((pool.reclaim(&mut cq), pool.available()), (0, 1));
    cq.poll().unwrap().for_each(drop);
    assert_eq!((pool.reclaim(&mut cq), pool.available()), (1, 3));
    drop(flushed);
}

/// A task that waits for entries is woken when a queue that reserved them ends, could not be
/// created, or is over, and when the completion queue grows.
#[test]
fn entries_that_were_reserved_wake_a_task() {
    use super::attachments::{AtEnd, Share};
    use super::deferred_destroy::Over;
    use super::inbox::Poller;
    use crate::counters::queue_counters::{QueueCounters, Quiet};
    use std::sync::Arc;
    use std::task::{Context, Wake};
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let cq: CompletionQueue = Fabric::new().open_device().cq(16).shared_budget().create().unwrap();
    let (inbox, capacity, mut over) = (cq.shared(), cq.capacity(), Over::default());
    let none_left = AtEnd { left: [0; 2], may_be_stale: false };
    type End<'a> = &'a mut dyn FnMut(&Arc<QueueCounters>);
    let mut ends: [End<'_>; 4] = [
        &mut |counters| inbox.end(counters, none_left, &mut Quiet::default()),
        &mut |counters| inbox.detach(counters),
        &mut |counters| {
            inbox.end(counters, AtEnd::UNKNOWN, &mut Quiet::default());
            inbox.note_ended(0);
            let poller = Poller { seen_empty_at: Some(0), ..Poller::default() };
            assert!(!inbox.finish_ended(&poller, &mut over).0);
        },
        &mut |_| inbox.resize(2 * capacity, || Ok(2 * capacity)).unwrap(),
    ];
    for (i, end) in ends.iter_mut().enumerate() {
        let counters = QueueCounters::shared(1, 1).unwrap();
        inbox.attach("", &counters, [0, capacity], Share::Shared).unwrap();
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = woken.clone().into();
        let mut task = Context::from_waker(&waker);
        assert!(inbox.budget.poll_room(&mut task, 1).is_pending());
        end(&counters);
        assert!(woken.0.load(Ordering::Relaxed), "{i}");
        assert!(inbox.budget.poll_room(&mut task, 1).is_ready(), "{i}");
    }
    over.give_back();
}

/// A wait without a timeout reads the descriptor and blocks in the read. Waits with a timeout do
/// not.
#[test]
#[cfg_attr(miri, ignore = "fcntl(2)")]
fn an_endless_wait_sleeps_in_the_read() {
    use std::os::fd::AsRawFd;
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let mut channel = context.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = context.cq(8).channel(&channel).create().unwrap();
    let blocks = |channel: &CompletionChannel| {
        // SAFETY: a system call on an open descriptor, without pointers.
        let flags = unsafe { libc::fcntl(channel.as_raw_fd(), libc::F_GETFL) };
        flags & libc::O_NONBLOCK == 0
    };
    assert!(channel.wait_timeout(&mut cq, Duration::ZERO).unwrap().is_empty()); // arms the queue
    assert!(!blocks(&channel));
    // The event ends the next sleep at once. It does not name a completion that is left.
    let depth = Depth { send: 1, recv: 1 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let mut qp = qp.modify(init).unwrap();
    qp.post_recv(wr::Recv::empty()).unwrap();
    let qp = qp.to_error().unwrap();
    empty(&mut cq);
    assert!(channel.sleep_for_event().unwrap() && blocks(&channel), "it read the event");
    drop(qp);
}
