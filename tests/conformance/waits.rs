//! Waits end within their time, whatever other threads and peers do, and sleep until then.

use std::fs;
use std::marker::Send as Sendable;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use proverbs::completion::{AnyCompletionQueue, Notify, Waker};
use proverbs::device::{DeviceEvent, QpEvent};
use proverbs::events::{Found, WaitFor, wait, wait_slice};
use proverbs::prelude::*;
use proverbs::qp::{Drain, Drained};

use crate::support::*;

/// The result of `wait`. A wait that never ends fails the test instead of hanging it.
pub fn ends<R: Sendable + 'static>(what: &str, wait: impl FnOnce() -> R + Sendable + 'static) -> R {
    let (tell, told) = mpsc::channel();
    let waiter = thread::spawn(move || tell.send(wait()).unwrap());
    match told.recv_timeout(patience()) {
        Ok(done) => done,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} never ends"),
        Err(_) => std::panic::resume_unwind(waiter.join().unwrap_err()),
    }
}

/// How often two threads race. On a real device each race has an arbitrary outcome.
const ROUNDS: u32 = if cfg!(miri) { 3 } else { 200 };

/// Runs both at once, on two threads.
fn at_once(one: impl FnOnce() + Sendable, other: impl FnOnce()) {
    let both = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            both.wait();
            one();
        });
        both.wait();
        other();
    });
}

/// A wait for a queue with a time limit. Returns whether a completion arrived.
type Wait = fn(&mut CompletionChannel, &mut CompletionQueue, Duration) -> bool;

/// Every wait of a channel that has a time limit.
const TIMED: [(&str, Wait); 7] = [
    ("wait_timeout", |channel, cq, time| channel.wait_timeout(cq, time).unwrap().count() > 0),
    ("wait_solicited", |channel, cq, time| {
        channel.wait_solicited(cq, Some(time)).unwrap().count() > 0
    }),
    ("wait_any", |channel, cq, time| channel.wait_any(&mut [cq], Some(time)).unwrap().is_some()),
    ("wait_or_woken", |channel, cq, time| {
        let waker = Waker::new().unwrap();
        channel.wait_or_woken(cq, &waker, Some(time)).unwrap().count() > 0
    }),
    ("wait_any_or_woken", |channel, cq, time| {
        let waker = Waker::new().unwrap();
        channel.wait_any_or_woken(&mut [cq], &waker, Some(time)).unwrap().is_some()
    }),
    ("events::wait", |channel, cq, time| {
        let [found] = wait([WaitFor::Cqs(channel, &mut [cq])], Some(time)).unwrap();
        found.is_some()
    }),
    ("events::wait_slice", |channel, cq, time| {
        let queues: &mut [&mut dyn AnyCompletionQueue] = &mut [cq];
        let mut sources = vec![(WaitFor::Cqs(channel, queues), None)];
        wait_slice(&mut sources, Some(time)).unwrap();
        sources[0].1.is_some()
    }),
];

/// A thread sleeps for completions, for a wake and for asynchronous events at once. It finds all
/// pending ones together, and a later one ends the sleep.
/// Ends: wait.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn one_sleep_finds_what_each_source_has() {
    ends("a sleep for everything", || {
        let (dev, wish) = (Device::open(), Wish::new());
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(4, 64).unwrap();
        let mut channel = dev.ctx.create_comp_channel().unwrap();
        let [mut quiet, mut cq]: [CompletionQueue; 2] =
            [(); 2].map(|()| dev.ctx.cq(20).channel(&channel).create().unwrap());
        let [a, b] =
            [&quiet, &cq].map(|cq| pd.create_qp::<Rc, DefaultProfile>(cq, cq, wish.depth).unwrap());
        let (mut a, mut b) = Rc::connect((a, &pd), (b, &pd), &dev, &wish);
        let (mut events, waker) = (dev.ctx.events().unwrap(), Waker::new().unwrap());
        let mut other = dev.ctx.create_comp_channel().unwrap();
        // Whether there was a wake, and which queue has completions.
        let mut sleep = |queues: &mut [&mut dyn AnyCompletionQueue], time| {
            let sources = [
                WaitFor::Wake(&waker),
                WaitFor::Cqs(&mut channel, queues),
                WaitFor::Async(&mut events),
                WaitFor::Cqs(&mut other, &mut []),
            ];
            let [wake, completions, _, nothing] = wait(sources, time).unwrap();
            assert!(nothing.is_none() && matches!(wake, None | Some(Found::Wake)));
            let queue = completions.map(|found| match found {
                Found::Cq(queue) => queue,
                found => panic!("{found:?}"),
            });
            (wake.is_some(), queue)
        };
        let (begun, short) = (Instant::now(), Duration::from_millis(20));
        // (A port's event may end a sleep.)
        while begun.elapsed() < short {
            assert_eq!(sleep(&mut [&mut quiet, &mut cq], Some(short)), (false, None));
        }
        assert_eq!(sleep(&mut [&mut quiet, &mut cq], Some(Duration::ZERO)), (false, None));
        for round in 0..10 {
            b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
            a.post_send(wr::Send::inline(&[round])).unwrap();
            while sleep(&mut [&mut cq], None).1 != Some(0) {}
            waker.wake();
            let found = sleep(&mut [&mut quiet, &mut cq], None);
            assert!(found.0 && found.1.is_some(), "completions hide no wake: {found:?}");
            let found = sleep(&mut [&mut quiet, &mut cq], None);
            assert!(!found.0 && found.1.is_some(), "the wake was taken: {found:?}");
            let arrived = cq.poll().unwrap().map(|completion| completion.into_entry().unwrap()[0]);
            assert_eq!(arrived.collect::<Vec<_>>(), [round]);
            while sleep(&mut [&mut quiet], None).1.is_none() {}
            quiet.poll().unwrap().for_each(drop);
            at_once(|| waker.wake(), || while !sleep(&mut [&mut quiet, &mut cq], None).0 {});
        }
        drop((a, b));
    });
}

/// A number of channels that is not a constant: the first and the last one have completions, and
/// behind them is a wake. Results of an earlier call are removed. More than 32 sources are
/// rejected.
/// Ends: wait_slice.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn one_sleep_searches_a_slice_to_its_end() {
    const LAST: usize = 30;
    ends("a sleep for a slice", || {
        let (dev, wish, waker) = (Device::open(), Wish::new(), Waker::new().unwrap());
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(1, 64).unwrap();
        let channel = |_| dev.ctx.create_comp_channel().unwrap();
        let mut channels: Vec<_> = (0..=LAST).map(channel).collect();
        let cq = |channel| dev.ctx.cq(20).channel(channel).create().unwrap();
        let mut cqs: Vec<CompletionQueue> = channels.iter().map(cq).collect();
        let qp = |at: usize| pd.create_qp(&cqs[at], &cqs[at], wish.depth).unwrap();
        let (a, b): (QueuePair<Rc, Reset>, QueuePair<Rc, Reset>) = (qp(0), qp(LAST));
        let (mut a, mut b) = Rc::connect((a, &pd), (b, &pd), &dev, &wish);
        // The sources that have something.
        let sleep = |channels: &mut [CompletionChannel], cqs: &mut [CompletionQueue], time| {
            let mut lists: Vec<[&mut dyn AnyCompletionQueue; 1]> =
                cqs.iter_mut().map(|cq| [cq as _]).collect();
            let lists = channels.iter_mut().zip(&mut lists);
            let mut sources: Vec<_> = lists
                .map(|(channel, list)| (WaitFor::Cqs(channel, list), Some(Found::Wake)))
                .collect();
            sources.push((WaitFor::Wake(&waker), None));
            wait_slice(&mut sources, time).map(|()| {
                let found = sources.iter().enumerate().filter(|(_, (_, found))| found.is_some());
                found.map(|(at, _)| at).collect::<Vec<_>>()
            })
        };
        assert_eq!(sleep(&mut channels, &mut cqs, Some(Duration::ZERO)).unwrap(), []);
        b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        a.post_send(wr::Send::inline(b"message")).unwrap();
        while sleep(&mut channels, &mut cqs, None).unwrap() != [0, LAST] {}
        waker.wake();
        assert_eq!(sleep(&mut channels, &mut cqs, None).unwrap(), [0, LAST, LAST + 1]);
        for at in [0, LAST] {
            assert_eq!(cqs[at].poll().unwrap().map(drop).count(), 1);
        }
        waker.wake();
        assert_eq!(sleep(&mut channels, &mut cqs, None).unwrap(), [LAST + 1]);
        channels.push(dev.ctx.create_comp_channel().unwrap());
        cqs.push(dev.ctx.cq(20).channel(&channels[LAST + 1]).create().unwrap());
        let error = sleep(&mut channels, &mut cqs, None).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Limit { what: "sources", asked: 33, max: 32 });
        drop((a, b));
    });
}

/// Two neighbours on the channel complete without a pause, each on its own thread and queue. A wait
/// for a quiet queue uses up its time, twice, and then finds the completion that finally arrives.
/// Ends: CompletionChannel::wait, CompletionChannel::wait_any,
/// CompletionChannel::wait_any_or_woken, CompletionChannel::wait_or_woken,
/// CompletionChannel::wait_solicited, CompletionChannel::wait_timeout, wait, wait_slice.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn every_wait_ends_beside_busy_neighbours() {
    fails_on!(Iwarp, "R24.5");
    ends("a wait beside busy neighbours", || {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let mut channel = dev.ctx.create_comp_channel().unwrap();
        let mut quiet: CompletionQueue = dev.ctx.cq(4).channel(&channel).create().unwrap();
        let depth = Depth { send: 1, recv: 1 };
        let make = |cq: &CompletionQueue| {
            let qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth).unwrap();
            Rc::init(qp, &Wish::new())
        };
        let (done, talked) = (AtomicBool::new(false), AtomicU64::new(0));
        let neighbours = [(); 2].map(|()| {
            let cq = dev.ctx.cq(4).channel(&channel).create().unwrap();
            (make(&cq).to_error().unwrap(), cq)
        });
        let mut own = make(&quiet);
        thread::scope(|scope| {
            for (mut qp, mut cq) in neighbours {
                let (done, talked) = (&done, &talked);
                scope.spawn(move || {
                    while !done.load(Relaxed) {
                        // Armed while empty, so that the flushed receive raises an event.
                        if cq.poll_or_arm(Notify::Any).unwrap().count() == 0 {
                            talked.fetch_add(1, Relaxed);
                            if qp.send_room() > 0 {
                                qp.post_send(wr::Send::inline(b"flushed")).unwrap();
                            }
                        }
                    }
                });
            }
            let time = Duration::from_millis(10);
            for (what, wait) in TIMED {
                let (mut waits, mut beside) = (0, 0);
                // A busy machine may stop the neighbours for as long as one wait takes.
                while waits < 2 || beside == 0 && waits < 50 {
                    let (began, before) = (Instant::now(), talked.load(Relaxed));
                    assert!(!wait(&mut channel, &mut quiet, time), "{what}: the queue is quiet");
                    assert!(began.elapsed() >= time, "{what}");
                    waits += 1;
                    beside += u32::from(talked.load(Relaxed) > before);
                }
                assert!(beside > 0, "{what}: the neighbours communicate during the wait");
            }
            own.post_recv(wr::Recv::empty()).unwrap();
            let flushes = scope.spawn(|| own.to_error().unwrap());
            assert_eq!(channel.wait(&mut quiet).unwrap().count(), 1);
            drop(flushes.join().unwrap());
            done.store(true, Relaxed);
        });
    });
}

/// Another thread drops the completion queue that has the pending event, and takes the event with
/// it, between this thread's poll and read. Neither thread blocks on the other, and nothing leaks.
///
/// A loopback completion queue that is dropped while another thread takes its event does
/// not leak.
/// Proves R13.1.
/// Ends: CompletionChannel::wait, CompletionChannel::wait_any,
/// CompletionChannel::wait_any_or_woken, CompletionChannel::wait_or_woken,
/// CompletionChannel::wait_solicited, CompletionChannel::wait_timeout.
#[test]
fn a_completion_queue_is_dropped_while_its_event_is_taken() {
    fails_on!(Iwarp, "R24.5");
    ends("a poll of a channel", || {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(1, 64).unwrap();
        let mut channel = dev.ctx.create_comp_channel().unwrap();
        let mut quiet: CompletionQueue = dev.ctx.cq(4).channel(&channel).create().unwrap();
        for round in 0..ROUNDS {
            let mut cq: CompletionQueue = dev.ctx.cq(4).channel(&channel).create().unwrap();
            let depth = Depth { send: 1, recv: 1 };
            let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
            let mut qp = Rc::init(qp, &Wish::new());
            assert!(cq.poll_or_arm(Notify::Any).unwrap().is_empty());
            qp.post_recv(wr::Recv::new(pool.take().expect("the buffer of the last round is back")))
                .unwrap();
            drop(qp.to_error().unwrap());
            let short = Duration::from_millis(1);
            // Without a time limit, the next event ends it.
            let last = (round % 7 == 6).then(|| {
                let qp = pd.create_qp::<Rc, DefaultProfile>(&quiet, &quiet, depth).unwrap();
                let mut qp = Rc::init(qp, &Wish::new());
                qp.post_recv(wr::Recv::empty()).unwrap();
                qp
            });
            let mut flushed = None;
            at_once(
                || {
                    drop(cq);
                    flushed = last.map(|qp| qp.to_error().unwrap());
                },
                || match round % 7 {
                    5 => drop(channel.try_event().unwrap()),
                    6 => assert_eq!(channel.wait(&mut quiet).unwrap().count(), 1),
                    way => {
                        let (what, wait) = TIMED[way as usize];
                        assert!(
                            !wait(&mut channel, &mut quiet, short),
                            "{what}: the queue is \
                            quiet"
                        );
                    }
                },
            );
            drop(flushed);
        }
        quiet.destroy().unwrap();
        channel.destroy().unwrap();
        drop((pool, pd));
        let_ids_go();
        dev.ctx.destroy().expect("nothing keeps the device open");
    });
}

/// The same with an asynchronous event, whose queue pair is dropped.
/// Proves R13.1.
/// Ends: DeviceEvents::wait, DeviceEvents::wait_or_woken, DeviceEvents::wait_timeout.
#[test]
fn a_queue_pair_is_dropped_while_its_event_is_taken() {
    fails_on!(Iwarp, "R24.5");
    ends("a poll of asynchronous events", || {
        let dev = Device::open();
        let mut events = dev.ctx.events().unwrap();
        let pd = dev.ctx.alloc_pd().unwrap();
        let mut cq: CompletionQueue = dev.ctx.create_cq(8).unwrap();
        for round in 0..ROUNDS {
            // The last round's queue pair releases its room.
            assert_eq!(poll_empty(&mut cq), 0);
            let depth = Depth { send: 1, recv: 1 };
            let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
            let own = qp.qp_num();
            let qp = Rc::up(qp, &dev, own, &Wish::new());
            let qp = qp.modify(Drain { notify: true }).unwrap();
            // Without a time limit, the event of a remaining object ends it.
            let stays = (round % 4 == 3).then(|| {
                let stays = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
                let own = stays.qp_num();
                Rc::up(stays, &dev, own, &Wish::new())
            });
            let last = stays.as_ref().map(|stays| stays.qp_num());
            let drained = |qp_num| DeviceEvent::Qp { qp_num, event: QpEvent::SqDrained };
            let mut drains = None;
            at_once(
                || {
                    drop(qp);
                    drains = stays.map(|qp| qp.modify(Drain { notify: true }).unwrap());
                },
                || loop {
                    let short = Duration::from_millis(1);
                    let event = match round % 4 {
                        0 => events.try_next().unwrap(),
                        1 => events.wait_timeout(short).unwrap(),
                        2 => events.wait_or_woken(&Waker::new().unwrap(), Some(short)).unwrap(),
                        _ => Some(events.wait().unwrap()),
                    };
                    // Its own event, or none; port events have external causes.
                    match event {
                        None | Some(DeviceEvent::Port { .. }) => {}
                        Some(event) if last.is_some_and(|last| event == drained(last)) => break,
                        Some(event) => assert_eq!(event, drained(own)),
                    }
                    if last.is_none() {
                        break;
                    }
                },
            );
            drop(drains);
        }
        drop((cq, pd, events));
        let_ids_go();
        dev.ctx.destroy().expect("nothing keeps the device open");
    });
}

/// Processor time of this thread so far, in ticks of 10 ms.
fn ticks() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let behind_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// How often this thread has slept so far.
fn naps() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let naps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    naps.unwrap().trim().parse().unwrap()
}

/// A wait that finds nothing takes all of its time, and hardly any processor time.
/// Ends: CompletionChannel::wait_any, CompletionChannel::wait_solicited,
/// CompletionChannel::wait_timeout, DeviceEvents::wait_timeout.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn a_wait_sleeps_and_does_not_spin() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let mut events = dev.ctx.events().unwrap();
    let mut channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = dev.ctx.cq(4).channel(&channel).create().unwrap();
    let time = Duration::from_millis(150);
    let takes_its_time = |what: &str, wait: &mut dyn FnMut()| {
        // An emulated machine that was stopped for a while charges its ticks to the running thread,
        // but not each time.
        let asleep = (0..5).any(|_| {
            let (began, ran, slept) = (Instant::now(), ticks(), naps());
            wait();
            let (ran, slept) = (ticks() - ran, naps() - slept);
            assert!(began.elapsed() >= time, "{what} returned after {:?}", began.elapsed());
            // A spinning thread beside others also uses less than the time, but it never sleeps.
            ran < 8 && slept > 0
        });
        assert!(asleep, "{what} spins while it waits");
    };
    takes_its_time("wait_timeout", &mut || {
        assert!(channel.wait_timeout(&mut cq, time).unwrap().is_empty());
    });
    takes_its_time("wait_solicited", &mut || {
        assert!(channel.wait_solicited(&mut cq, Some(time)).unwrap().is_empty());
    });
    takes_its_time("wait_any", &mut || {
        assert_eq!(channel.wait_any(&mut [&mut cq], Some(time)).unwrap(), None);
    });
    takes_its_time("wait_timeout of events", &mut || {
        if let Some(event) = events.wait_timeout(time).unwrap() {
            assert!(matches!(event, DeviceEvent::Port { .. }), "{event:?}");
            thread::sleep(time);
        }
    });
    // An event of another queue is no reason to stay awake.
    let mut other = dev.ctx.cq(4).channel(&channel).create::<Buf>().unwrap();
    let pd = dev.ctx.alloc_pd().unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&other, &other, depth).unwrap();
    let mut qp = Rc::init(qp, &Wish::new());
    assert!(other.poll_or_arm(Notify::Any).unwrap().is_empty());
    qp.post_recv(wr::Recv::empty()).unwrap();
    let _qp = qp.to_error().unwrap();
    takes_its_time("wait_timeout beside an event of another queue", &mut || {
        assert!(channel.wait_timeout(&mut cq, time).unwrap().is_empty());
    });
    // A wait with no time is a single poll. On a busy machine, one of several must be short.
    let is_a_look = (0..20).any(|_| {
        let began = Instant::now();
        assert!(channel.wait_timeout(&mut cq, Duration::ZERO).unwrap().is_empty());
        assert_eq!(channel.wait_any(&mut [&mut cq], Some(Duration::ZERO)).unwrap(), None);
        began.elapsed() < time
    });
    assert!(is_a_look, "a wait with no time took {time:?} or more");
}

/// A queue pair with a forgotten completion is drained on a completion queue that two busy
/// neighbours never leave empty. The drain ends when its time is over, reports what is missing, and
/// does so again.
///
/// A drain ends beside a busy neighbour after a completion was forgotten.
/// Proves R10.14.
/// Ends: QueuePair::drain_within.
#[test]
fn a_drain_ends_beside_busy_neighbours() {
    fails_on!(Iwarp, "R24.5");
    let left = ends("a drain", || {
        let (dev, wish) = (Device::open(), Wish::new());
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(16, 64).unwrap();
        let mut cq: CompletionQueue = dev.ctx.create_cq(60).unwrap();
        let make = || {
            let depth = Depth { send: 4, recv: 4 };
            pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap()
        };
        let (one, mute, mut dead) = (make(), make(), Rc::init(make(), &wish));
        let (mut one, mut mute) = Rc::connect((one, &pd), (mute, &pd), &dev, &wish);

        dead.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        let mut dead = dead.to_error().unwrap();
        let mut deadline = dev.deadline("the receive is flushed");
        loop {
            match cq.poll_one().unwrap() {
                Some(completion) => break std::mem::forget(completion),
                None => deadline.tick(&()),
            }
        }

        let mut others = 0u64;
        for _ in 0..3 {
            mute.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
            one.post_send(wr::Send::new(filled(&pool, &[1]))).unwrap();
        }
        let (mut errors, mut talked) = (Vec::new(), 0);
        // A busy machine may stop the neighbours for as long as one drain takes.
        while errors.len() < 2 || talked == 0 && errors.len() < 20 {
            let (began, before) = (Instant::now(), others);
            let time = Duration::from_millis(100);
            let drained = dead.drain_within(&mut cq, time, |found| {
                let Drained::Other(completion) = found else { panic!("it was forgotten") };
                others += 1;
                // A completed request is posted again at once.
                match completion.outcome() {
                    Outcome::Sent(sent) => {
                        one.post_send(wr::Send::new(sent.entry.unwrap())).unwrap();
                    }
                    Outcome::Received(received) => {
                        mute.post_recv(wr::Recv::new(received.entry.unwrap())).unwrap();
                    }
                    _ => panic!("the neighbours work"),
                }
            });
            assert!(began.elapsed() >= time);
            errors.push(drained.unwrap_err());
            talked += u32::from(others > before);
        }
        assert!(talked > 0, "the neighbours communicate meanwhile");
        drop((dead, one, mute));
        errors
    });
    for error in left {
        assert_eq!(error.errno(), Some(110), "ETIMEDOUT");
        assert!(error.to_string().contains("0 sends and 1 receives were not flushed"), "{error}");
    }
}

/// A drain with nothing to wait for is done, however often it is called.
/// Ends: QueuePair::drain_within.
#[test]
fn a_drain_that_is_done_is_done_again() {
    let mut p = Pair::<Rc>::new();
    p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let mut a = p.a.to_error().unwrap();
    let mut home = 0;
    for _ in 0..3 {
        a.drain_within(&mut p.ca, Duration::MAX, |_| home += 1).unwrap();
        a.drain_within(&mut p.ca, Duration::ZERO, |_| home += 1).unwrap();
    }
    assert_eq!((home, p.pool.available()), (1, 40));
}

/// Nor does it take completions of others, however many there are.
#[test]
fn a_drain_that_is_done_leaves_its_neighbours_alone() {
    fails_on!(Iwarp, "R24.5");
    let mut p =
        Pair::<Rc>::with(&Wish { depth: Depth { send: 32, recv: 32 }, cqe: 120, ..Wish::new() });
    let idle = p.pd.create_qp::<Rc, DefaultProfile>(&p.ca, &p.ca, Depth { send: 1, recv: 1 });
    let mut idle = Rc::init(idle.unwrap(), &Wish::new()).to_error().unwrap();
    let region = p.pd.register::<RemoteWrite>(8).unwrap();
    for _ in 0..32 {
        p.a.post_send(wr::RdmaWrite::inline(b"neighbor", region.remote().write())).unwrap();
    }
    idle.drain_within(&mut p.ca, Duration::ZERO, |_| panic!("of a neighbour")).unwrap();
    poll(&p.dev, &mut p.ca, 32);
}

/// A deferred queue pair is destroyed while no lock is held: one of its sends may own its shared
/// receive queue.
#[test]
fn a_deferred_queue_pair_that_owns_its_shared_receive_queue() {
    fails_on!(NoRings);
    struct Holds(Option<SharedReceiveQueue<Rc, Buf<Holds>>>);
    profile! { Owner { entry: Buf<Holds>, signaling: Selective, initiator: NoReads, receive: SharedRq } }
    ends("a poll that destroys it", || {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let mut cq = dev.ctx.create_cq::<Buf<Holds>>(40).unwrap();
        let feed = pd.pool(64).contexts(|_| Holds(None)).create(2).unwrap();
        let mut srq: SharedReceiveQueue<Rc, Buf<Holds>> = pd.create_srq(&feed).unwrap();
        srq.post_srq_recv(wr::Recv::new(feed.take().unwrap())).unwrap();
        let qp = pd.create_qp::<Rc, Owner>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
        let mut qp = Rc::up(qp, &dev, 0xfffff0, &Wish::new());
        let mut buf = pd.pool(64).contexts(|_| Holds(None)).create(1).unwrap().take().unwrap();
        buf.context_mut().0 = Some(srq);
        let _ = qp.post_send_unsignaled(wr::Send::new(buf)).unwrap();
        drop(qp);
        for _ in 0..4 {
            poll_empty(&mut cq);
        }
        assert_eq!(feed.available(), 2);
        cq.destroy().unwrap();
        feed.destroy().unwrap();
        pd.destroy().unwrap();
    });
}

/// A sleep without a time limit ends when it is woken, before it begins or during it. A wake that
/// another sleep has taken does not count.
/// Ends: CompletionChannel::wait_any_or_woken, CompletionChannel::wait_or_woken,
/// DeviceEvents::wait_or_woken.
#[test]
fn the_program_can_end_a_sleep() {
    ends("a sleep that is woken", || {
        let dev = Device::open();
        let mut channel = dev.ctx.create_comp_channel().unwrap();
        let mut cq: CompletionQueue = dev.ctx.cq(4).channel(&channel).create().unwrap();
        let mut other: CompletionQueue<BufList> = dev.ctx.cq(4).channel(&channel).create().unwrap();
        let waker = Waker::new().unwrap();
        let ours = waker.clone();
        waker.wake();
        waker.wake();
        assert!(channel.wait_or_woken(&mut cq, &ours, None).unwrap().is_empty());
        let short = Duration::from_millis(20);
        let begun = Instant::now();
        assert!(channel.wait_or_woken(&mut cq, &ours, Some(short)).unwrap().is_empty());
        assert!(begun.elapsed() >= short, "two calls are one wake");
        for round in 0..if cfg!(miri) { 2 } else { 20 } {
            at_once(
                || waker.wake(),
                || {
                    let queues: &mut [&mut dyn AnyCompletionQueue] = &mut [&mut cq, &mut other];
                    match round % 2 {
                        0 => assert_eq!(
                            channel.wait_any_or_woken(queues, &ours, None).unwrap(),
                            None
                        ),
                        _ => assert!(
                            channel.wait_or_woken(&mut other, &ours, None).unwrap().is_empty()
                        ),
                    }
                },
            );
        }
        waker.wake();
        let mut events = dev.ctx.events().unwrap();
        assert_eq!(events.wait_or_woken(&ours, None).unwrap(), None);
        let begun = Instant::now();
        assert_eq!(events.wait_or_woken(&ours, Some(short)).unwrap(), None);
        assert!(begun.elapsed() >= short);
    });
}

/// Completions are not held back by a wake, which is then left for the next sleep.
#[test]
fn completions_come_before_a_wake() {
    fails_on!(Iwarp, "R24.5");
    ends("a sleep with completions and a wake", || {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(1, 64).unwrap();
        let mut channel = dev.ctx.create_comp_channel().unwrap();
        let mut cq: CompletionQueue = dev.ctx.cq(4).channel(&channel).create().unwrap();
        let depth = Depth { send: 1, recv: 1 };
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let mut qp = Rc::init(qp, &Wish::new());
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        let waker = Waker::new().unwrap();
        let qp = thread::scope(|scope| {
            let flushes = scope.spawn(|| qp.to_error().unwrap());
            let mut found = 0;
            while found == 0 {
                found += channel.wait_or_woken(&mut cq, &waker, None).unwrap().count();
            }
            assert_eq!(found, 1);
            flushes.join().unwrap()
        });
        let mut other: CompletionQueue = dev.ctx.cq(4).channel(&channel).create().unwrap();
        let more = pd.create_qp::<Rc, DefaultProfile>(&other, &other, depth).unwrap();
        let mut more = Rc::init(more, &Wish::new());
        more.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        let more = more.to_error().unwrap();
        let mut wait = || {
            let found = channel.wait_any_or_woken(&mut [&mut cq, &mut other], &waker, None);
            (found.unwrap(), other.poll().unwrap().count())
        };
        assert_eq!(wait(), (Some(1), 1));
        waker.wake();
        assert_eq!(wait(), (None, 0));
        waker.wake();
        assert!(channel.wait_or_woken(&mut cq, &waker, None).unwrap().is_empty());
        drop((qp, more));
    });
}

/// If a completion and its waker end a wait together, it returns the completion, and the waker ends
/// the next wait. The other thread wakes after the completion is in the queue.
#[test]
fn a_completion_comes_before_the_wake_that_follows_it() {
    ends("a wait with a waker", || {
        let (dev, wish) = (Device::open(), Wish::new());
        if dev.kind == Kind::Siw {
            println!("R24.12: a send completes before its message has arrived");
            return;
        }
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(1, 64).unwrap();
        let mut channel = dev.ctx.create_comp_channel().unwrap();
        let mut cq: CompletionQueue = dev.ctx.cq(4).channel(&channel).create().unwrap();
        let mut theirs: CompletionQueue = dev.ctx.create_cq(4).unwrap();
        let depth = Depth { send: 1, recv: 1 };
        let sender = pd.create_qp::<Rc, DefaultProfile>(&theirs, &theirs, depth).unwrap();
        let receiver = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let (mut sender, mut receiver) = Rc::connect((sender, &pd), (receiver, &pd), &dev, &wish);
        let waker = Waker::new().unwrap();
        let begin = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    begin.wait();
                    sender.post_send(wr::Send::inline(b"first")).unwrap();
                    // It completes when the receiver has the message.
                    poll(&dev, &mut theirs, 1).remove(0).sent();
                    waker.wake();
                }
            });
            for round in 0..ROUNDS {
                receiver.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
                begin.wait();
                if round % 2 == 0 {
                    let found = channel.wait_or_woken(&mut cq, &waker, None).unwrap();
                    assert_eq!(found.count(), 1, "round {round}: the completion is there");
                } else {
                    let found = channel.wait_any_or_woken(&mut [&mut cq], &waker, None).unwrap();
                    assert_eq!(found, Some(0), "round {round}: the completion is there");
                    assert_eq!(cq.poll().unwrap().count(), 1);
                }
                let found = channel.wait_or_woken(&mut cq, &waker, None).unwrap();
                assert_eq!(found.count(), 0, "round {round}: the wake is still pending");
            }
        });
    });
}
