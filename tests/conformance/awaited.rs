//! Awaiting completions and events: dropped futures have no effect, and no wake-up is lost.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context as Task, Poll, Waker};

use proverbs::bounded::{RnrRetries, RnrRetry};
use proverbs::completion::Notify;
use proverbs::device::{DeviceEvent, QpEvent};
use proverbs::prelude::*;
use proverbs::qp::{Drain, Drained, RcReturn};
use tokio::runtime::{Builder, Runtime};

use crate::support::*;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// One end of a pair whose completions are awaited.
struct End {
    qp: QueuePair<Rc, Rts>,
    cq: CompletionQueue,
    channel: AsyncCompletionChannel,
    pool: Pool,
}

/// Two ends; call it inside a runtime.
fn ends() -> (End, End, Device) {
    let (dev, wish) = (Device::open(), Wish::new());
    let pd = dev.ctx.alloc_pd().unwrap();
    let end = || {
        let channel = dev.ctx.create_comp_channel().unwrap().into_async().unwrap();
        let cq = dev.ctx.cq(20).channel(channel.get_ref()).create().unwrap();
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
        (channel, cq, qp, pd.create_pool(8, 64).unwrap())
    };
    let ((ha, ca, a, pa), (hb, cb, b, pb)) = (end(), end());
    let (a, b) = Rc::connect((a, &pd), (b, &pd), &dev, &wish);
    (
        End { qp: a, cq: ca, channel: ha, pool: pa },
        End { qp: b, cq: cb, channel: hb, pool: pb },
        dev,
    )
}

impl End {
    /// Posts the first receive. On iWARP a message without a receive ends the connection.
    fn ready(mut self) -> Self {
        self.qp.post_recv(wr::Recv::new(poisoned(&self.pool))).unwrap();
        self
    }

    /// Sends bytes and awaits the reply, or replies, `rounds` times; each message is one byte
    /// longer.
    async fn play(mut self, starts: bool, rounds: u8) -> Self {
        if starts {
            self.qp.post_send(wr::Send::new(filled(&self.pool, &[0]))).unwrap();
        }
        let (mut sent, mut received) = (0, 0);
        while sent < rounds || received < rounds {
            let mut next = None;
            for completion in self.channel.wait(&mut self.cq).await.unwrap() {
                match completion.outcome() {
                    Outcome::Sent(_) => sent += 1,
                    Outcome::Received(message) => {
                        assert_eq!(message.data(), [received * 2 + u8::from(starts)]);
                        received += 1;
                        next = Some(received * 2 - u8::from(!starts));
                    }
                    other => panic!("{:?}", matches!(other, Outcome::Failed(_))),
                }
            }
            if let Some(byte) = next.filter(|_| !(starts && received == rounds)) {
                self.qp.post_recv(wr::Recv::new(poisoned(&self.pool))).unwrap();
                self.qp.post_send(wr::Send::new(filled(&self.pool, &[byte]))).unwrap();
            }
        }
        self
    }
}

#[test]
fn two_tasks_exchange_messages() {
    runtime().block_on(async {
        let (a, b, _dev) = ends();
        let (a, b) = (a.ready(), b.ready());
        // Tasks move between threads, so their futures are Send.
        let other = tokio::spawn(b.play(false, 100));
        // Both ends stay until both are done: on iWARP an end that goes is an error of the other.
        let a = a.play(true, 100).await;
        other.await.unwrap();
        drop(a);
    });
}

#[test]
fn two_threads_exchange_messages() {
    let (here, there) = (runtime(), runtime());
    let (a, b) = here.block_on(async {
        let (a, b, _dev) = ends();
        (a.ready(), b.ready())
    });
    let other = std::thread::spawn(move || {
        there.block_on(async {
            // To another runtime.
            let End { qp, cq, channel, pool } = b;
            let channel = channel.into_inner().into_async().unwrap();
            let b = End { qp, cq, channel, pool }.play(false, 100).await;
            // Its queue pair stays until `a` is done.
            (b.qp, b.cq)
        })
    });
    let a = here.block_on(a.play(true, 100));
    let b = other.join().unwrap();
    drop((a, b));
}

/// A queue on another channel would never be woken here.
#[test]
fn a_queue_is_awaited_on_its_own_channel() {
    runtime().block_on(async {
        let (mut a, mut b, _dev) = ends();
        let refused = [
            once(a.channel.wait(&mut b.cq)).map(|ended| ended.err()),
            once(a.channel.wait_solicited(&mut b.cq)).map(|ended| ended.err()),
            once(a.channel.wait_any(&mut [&mut a.cq, &mut b.cq])).map(|ended| ended.err()),
        ];
        for ended in refused {
            let error = ended.expect("it ends").expect("with an error");
            assert_eq!((error.verb(), error.errno()), ("ibv_get_cq_event", Some(libc::EINVAL)));
        }
    });
}

/// Polls a future once and drops it.
fn once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Task::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn a_dropped_wait_loses_nothing_and_frees_nothing() {
    runtime().block_on(async {
        let (mut a, mut b, dev) = ends();
        for i in 0..4 {
            // The device has one of the eight buffers, whatever happens to the futures.
            b.qp.post_recv(wr::Recv::new(poisoned(&b.pool))).unwrap();
            assert!(once(b.channel.wait(&mut b.cq)).is_none());
            assert!(once(b.channel.wait_solicited(&mut b.cq)).is_none());
            assert!(once(b.channel.wait_any(&mut [&mut b.cq])).is_none());
            let all: Vec<_> = std::iter::from_fn(|| b.pool.take()).collect();
            assert_eq!((all.len(), b.qp.recvs_outstanding()), (7, 1));
            drop(all);
            a.qp.post_send(wr::Send::new(filled(&a.pool, &[i]))).unwrap();
            poll(&dev, &mut a.cq, 1);
            // The queue is armed and its event is pending. A wait that is dropped half-way leaves
            // it for the next one.
            tokio::task::yield_now().await;
            let received = b.channel.wait(&mut b.cq).await.unwrap().next().unwrap();
            assert_eq!(received.into_entry().unwrap()[0], i);
        }
        // A completion that a wait returned, but that was not used, is there for the next one.
        for i in 4..7 {
            b.qp.post_recv(wr::Recv::new(poisoned(&b.pool))).unwrap();
            a.qp.post_send(wr::Send::new(filled(&a.pool, &[i]))).unwrap();
        }
        poll(&dev, &mut a.cq, 3);
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let mut completions = b.channel.wait(&mut b.cq).await.unwrap();
            seen.push(completions.next().unwrap().into_entry().unwrap()[0]);
        }
        assert_eq!(seen, [4, 5, 6]);
    });
}

/// Proves R13.3.
#[test]
fn randomly_dropped_futures_lose_no_message() {
    runtime().block_on(async {
        let (mut a, mut b, dev) = ends();
        // On iWARP a message without a receive ends the connection (R24.12).
        let (is_iwarp, posted) = (dev.is_iwarp(), Cell::new(0));
        let sender = async {
            for i in 0..100u8 {
                while is_iwarp && posted.get() <= i {
                    tokio::task::yield_now().await;
                }
                a.qp.post_send(wr::Send::new(filled(&a.pool, &[i]))).unwrap();
                a.channel.wait(&mut a.cq).await.unwrap().for_each(drop);
            }
        };
        let receiver = async {
            let mut got = Vec::new();
            let mut turn = 0u32;
            while got.len() < 100 {
                while b.qp.recvs_outstanding() < 4 {
                    b.qp.post_recv(wr::Recv::new(poisoned(&b.pool))).unwrap();
                    posted.set(posted.get() + 1);
                }
                turn += 1;
                // Either may be first.
                tokio::select! {
                    biased;
                    () = yields(turn % 3) => {}
                    completions = b.channel.wait(&mut b.cq) => {
                        for completion in completions.unwrap() {
                            got.push(completion.into_entry().unwrap()[0]);
                        }
                    }
                }
            }
            got
        };
        let ((), got) = tokio::join!(sender, receiver);
        assert_eq!(got, (0..100).collect::<Vec<u8>>());
    });
}

/// Completes after this many turns of the runtime.
async fn yields(turns: u32) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Counts how often an endless future is polled while another task takes its turns.
async fn polls(wait: impl Future) -> u32 {
    let mut polls = 0;
    let mut wait = pin!(wait);
    let counted = std::future::poll_fn(|task| {
        polls += 1;
        wait.as_mut().poll(task)
    });
    let others = tokio::spawn(yields(200));
    tokio::select! {
        _ = counted => panic!("nothing arrives on the quiet queue"),
        ended = others => ended.unwrap(),
    }
    polls
}

#[test]
fn a_task_that_only_posts_wakes_one_that_only_sleeps() {
    runtime().block_on(async {
        let (mut a, mut b, _dev) = ends();
        b.qp.post_recv(wr::Recv::new(poisoned(&b.pool))).unwrap();
        let sleeper = tokio::spawn(async move {
            let received = b.channel.wait(&mut b.cq).await.unwrap().next().unwrap();
            received.into_entry().unwrap()[0]
        });
        tokio::task::yield_now().await;
        a.qp.post_send(wr::Send::new(filled(&a.pool, &[42]))).unwrap();
        assert_eq!(sleeper.await.unwrap(), 42);
    });
}

#[test]
fn retries_run_out_while_all_tasks_sleep() {
    fails_on!(IwarpOtherwise, "R24.12");
    runtime().block_on(async {
        let (mut a, _b, _dev) = {
            let wish =
                Wish { rnr_retry: RnrRetry::Times(RnrRetries::new(1).unwrap()), ..Wish::new() };
            let dev = Device::open();
            let pd = dev.ctx.alloc_pd().unwrap();
            let channel = dev.ctx.create_comp_channel().unwrap().into_async().unwrap();
            let cq = dev.ctx.cq(20).channel(channel.get_ref()).create().unwrap();
            let cb: CompletionQueue = dev.ctx.create_cq(20).unwrap();
            let a = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
            let b = pd.create_qp::<Rc, DefaultProfile>(&cb, &cb, wish.depth).unwrap();
            let (a, b) = Rc::connect((a, &pd), (b, &pd), &dev, &wish);
            let pool = pd.create_pool(8, 64).unwrap();
            (End { qp: a, cq, channel, pool }, (b, cb), dev)
        };
        a.qp.post_send(wr::Send::new(filled(&a.pool, &[1]))).unwrap();
        let failed = a.channel.wait(&mut a.cq).await.unwrap().next().unwrap();
        assert_eq!(failed.status().unwrap_err().status, WcStatus::RnrRetryExc);
    });
}

#[test]
fn many_queues_are_awaited_at_once() {
    runtime().block_on(async {
        let dev = Device::open();
        let wish = Wish::new();
        let pd = dev.ctx.alloc_pd().unwrap();
        let mut channel = dev.ctx.create_comp_channel().unwrap().into_async().unwrap();
        let mut ca: CompletionQueue = dev.ctx.cq(20).channel(channel.get_ref()).create().unwrap();
        let mut cb: CompletionQueue = dev.ctx.cq(20).channel(channel.get_ref()).create().unwrap();
        let pool = pd.create_pool(8, 64).unwrap();
        let a = pd.create_qp::<Rc, DefaultProfile>(&ca, &ca, wish.depth).unwrap();
        let b = pd.create_qp::<Rc, DefaultProfile>(&cb, &cb, wish.depth).unwrap();
        let (mut a, mut b) = Rc::connect((a, &pd), (b, &pd), &dev, &wish);
        for i in 0..10 {
            b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
            a.post_send(wr::Send::new(filled(&pool, &[i]))).unwrap();
            let (mut sent, mut received) = (0, 0);
            while (sent, received) != (1, 1) {
                match channel.wait_any(&mut [&mut ca, &mut cb]).await.unwrap() {
                    0 => sent += ca.poll().unwrap().count(),
                    _ => received += cb.poll().unwrap().count(),
                }
            }
        }
    });
}

/// A drain that is repeatedly dropped passes on the completions that it polled, and the next one
/// continues.
/// Ends: QueuePair::drain_async.
#[test]
fn a_drain_is_awaited() {
    fails_on!(IwarpOtherwise, "R24.7");
    let drained = async {
        let (mut a, mut b, _dev) = ends();
        for i in 0..8 {
            a.qp.post_recv(wr::Recv::new(filled(&a.pool, &[i]))).unwrap();
        }
        let b_channel = &mut b.channel;
        let mut qp = a.qp.to_error().unwrap();
        let mut home = 0;
        let mut found = |found: Drained<'_, Buf>| match found {
            Drained::Entry(_) => home += 1,
            Drained::Other(_) => panic!("one queue pair on this completion queue"),
        };
        let elsewhere = qp.drain_async(b_channel, &mut b.cq, &mut found).await.unwrap_err();
        assert_eq!(elsewhere.errno(), Some(libc::EINVAL));
        // It waits, or it found something and yields.
        let once = once(qp.drain_async(&mut a.channel, &mut a.cq, &mut found));
        assert!(once.is_none());
        qp.drain_async(&mut a.channel, &mut a.cq, &mut found).await.unwrap();
        qp.drain_async(&mut a.channel, &mut a.cq, &mut found).await.unwrap();
        assert_eq!((home, qp.recvs_outstanding(), a.pool.available()), (8, 0, 8));
        // And in one call, which yields in between.
        for i in 0..8 {
            b.qp.post_recv(wr::Recv::new(filled(&b.pool, &[i]))).unwrap();
        }
        let (mut qp, mut home) = (b.qp.to_error().unwrap(), 0);
        let found = |_: Drained<'_, Buf>| home += 1;
        qp.drain_async(&mut b.channel, &mut b.cq, found).await.unwrap();
        assert_eq!((home, b.pool.available()), (8, 8));
    };
    crate::waits::ends("an awaited drain", || runtime().block_on(drained));
}

/// A drain with a missing completion waits, and lets other tasks run.
/// Ends: QueuePair::drain_async.
#[test]
fn an_unfinished_drain_waits() {
    fails_on!(Iwarp, "R24.5");
    crate::waits::ends("an awaited drain", || {
        runtime().block_on(async {
            let (a, _b, dev) = ends();
            let End { mut qp, mut cq, mut channel, pool } = a;
            qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
            let mut qp = qp.to_error().unwrap();
            let mut deadline = dev.deadline("the flushed receive");
            loop {
                if let Some(completion) = cq.poll_one().unwrap() {
                    break std::mem::forget(completion);
                }
                deadline.tick(&());
            }
            for _ in 0..3 {
                let drain = qp.drain_async(&mut channel, &mut cq, |_| panic!("nothing is left"));
                assert!(once(drain).is_none());
                yields(3).await;
            }
            // It sleeps instead of polling repeatedly.
            let mut polls = 0;
            {
                let drain = qp.drain_async(&mut channel, &mut cq, |_| panic!("nothing is left"));
                let mut drain = pin!(drain);
                let counted = std::future::poll_fn(|task| {
                    polls += 1;
                    drain.as_mut().poll(task)
                });
                let others = tokio::spawn(yields(200));
                tokio::select! {
                    _ = counted => panic!("a completion is missing"),
                    ended = others => ended.unwrap(),
                }
            }
            assert!(polls < 10, "{polls} polls");
            // Nor does it starve the task while another queue pair's completions arrive one by one.
            let pd = dev.ctx.alloc_pd().unwrap();
            let pool = pd.create_pool(1, 64).unwrap();
            let depth = Depth { send: 1, recv: 1 };
            let other = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
            let mut other = Rc::init(other, &Wish::new()).to_error().unwrap();
            other.post_send(wr::Send::new(pool.take().unwrap())).unwrap();
            let mut turns = 0;
            while turns < 3 {
                let drain = qp.drain_async(&mut channel, &mut cq, |found| {
                    let Drained::Other(completion) = found else { panic!("nothing is left") };
                    other.post_send(wr::Send::new(completion.into_entry().unwrap())).unwrap();
                    turns += 1;
                });
                assert!(once(drain).is_none());
                deadline.tick(&());
            }
        });
    });
}

#[test]
fn asynchronous_events_are_awaited() {
    fails_on!(Iwarp, "R24.5");
    runtime().block_on(async {
        let (a, _b, dev) = ends();
        let mut events = dev.ctx.events().unwrap().into_async().unwrap();
        let qp_num = a.qp.qp_num();
        // Dropped before an event came.
        while once(events.next()).is_some() {}
        let stopped = a.qp.modify(Drain { notify: true }).unwrap();
        loop {
            match events.next().await.unwrap() {
                DeviceEvent::Port { .. } => {}
                event => {
                    break assert_eq!(event, DeviceEvent::Qp { qp_num, event: QpEvent::SqDrained });
                }
            }
        }
        drop(stopped);
        assert!(dev.ctx.events().is_err());
        drop(events.into_inner());
        dev.ctx.events().unwrap();
    });
}

/// An event that is gone wakes a task once, not repeatedly.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn a_task_that_finds_no_event_sleeps() {
    fails_on!(Iwarp, "R24.5");
    runtime().block_on(async {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let mut channel = dev.ctx.create_comp_channel().unwrap().into_async().unwrap();
        let mut quiet: CompletionQueue = dev.ctx.cq(4).channel(channel.get_ref()).create().unwrap();
        let mut cq: CompletionQueue = dev.ctx.cq(4).channel(channel.get_ref()).create().unwrap();
        let depth = Depth { send: 1, recv: 1 };
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let mut qp = Rc::init(qp, &Wish::new());
        assert!(cq.poll_or_arm(Notify::Any).unwrap().is_empty());
        qp.post_recv(wr::Recv::empty()).unwrap();
        drop(qp.to_error().unwrap());
        // The runtime sees the event, and then the queue is dropped with it.
        yields(100).await;
        drop(cq);
        let polls = polls(channel.wait(&mut quiet)).await;
        assert!(polls < 10, "{polls} polls");
    });
}

/// Other tasks get a turn between two foreign events. Otherwise a timeout would never fire beside
/// a neighbour that completes without a pause.
///
/// A task that takes other tasks' events yields, so a timeout around it fires.
/// Ends: AsyncCompletionChannel::wait, AsyncCompletionChannel::wait_any,
/// AsyncCompletionChannel::wait_solicited.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn foreign_events_do_not_starve_other_tasks() {
    fails_on!(Iwarp, "R24.5");
    runtime().block_on(async {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let mut channel = dev.ctx.create_comp_channel().unwrap().into_async().unwrap();
        let mut quiet: CompletionQueue = dev.ctx.cq(4).channel(channel.get_ref()).create().unwrap();
        let depth = Depth { send: 1, recv: 1 };
        for way in 0..3 {
            let neighbours: [CompletionQueue; 5] = [(); 5].map(|()| {
                let mut cq = dev.ctx.cq(4).channel(channel.get_ref()).create().unwrap();
                let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
                let mut qp = Rc::init(qp, &Wish::new());
                assert!(cq.poll_or_arm(Notify::Any).unwrap().is_empty());
                qp.post_recv(wr::Recv::empty()).unwrap();
                drop(qp.to_error().unwrap());
                cq
            });
            // The runtime sees that there are events.
            yields(100).await;
            let turns = polls(async {
                match way {
                    0 => channel.wait(&mut quiet).await.map(drop),
                    1 => channel.wait_solicited(&mut quiet).await.map(drop),
                    _ => channel.wait_any(&mut [&mut quiet]).await.map(drop),
                }
            })
            .await;
            assert!((5..15).contains(&turns), "{turns} turns for 5 events");
            drop(neighbours);
        }
    });
}

/// Polls an endless future until other tasks had a few turns.
async fn beside_others(endless: impl Future<Output = ()>) {
    let others = tokio::spawn(yields(5));
    tokio::select! {
        () = endless => panic!("the future is endless"),
        ended = others => ended.unwrap(),
    }
}

/// A loop of the program whose completions are always ready, since each arrives before the previous
/// one is taken, still gives other tasks a turn.
///
/// A loop over ready completions yields, so a timeout around it fires.
/// Ends: AsyncCompletionChannel::wait, AsyncCompletionChannel::wait_any,
/// AsyncCompletionChannel::wait_solicited.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn ready_completions_do_not_starve_other_tasks() {
    runtime().block_on(async {
        let (End { qp, mut cq, mut channel, pool }, _b, _dev) = ends();
        let mut qp = qp.to_error().unwrap();
        qp.post_send(wr::Send::new(pool.take().unwrap())).unwrap();
        for way in 0..3 {
            let mut taken = 0;
            beside_others(async {
                loop {
                    let mut completions = match way {
                        0 => channel.wait(&mut cq).await.unwrap(),
                        1 => channel.wait_solicited(&mut cq).await.unwrap(),
                        _ => {
                            channel.wait_any(&mut [&mut cq]).await.unwrap();
                            cq.poll().unwrap()
                        }
                    };
                    let buf = completions.next().unwrap().into_entry().unwrap();
                    qp.post_send(wr::Send::new(buf)).unwrap();
                    taken += 1;
                    assert!(taken < 1000, "{way}: other tasks get no turn");
                }
            })
            .await;
        }
    });
}

/// The same for events of the device.
///
/// A loop over ready events yields, so a timeout around it fires.
/// Ends: AsyncDeviceEvents::next.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn ready_events_do_not_starve_other_tasks() {
    fails_on!(Iwarp, "R24.5");
    runtime().block_on(async {
        let (End { mut qp, .. }, _b, dev) = ends();
        let mut events = dev.ctx.events().unwrap().into_async().unwrap();
        beside_others(async {
            for taken in 0.. {
                assert!(taken < 1000, "other tasks get no turn");
                let draining = qp.modify(Drain { notify: true }).unwrap();
                while !matches!(events.next().await.unwrap(), DeviceEvent::Qp { .. }) {}
                qp = draining.into_sqd().unwrap().modify(RcReturn::default()).unwrap();
            }
        })
        .await;
    });
}

/// A wait that outlives its runtime returns an error instead of sleeping forever.
/// Ends: AsyncCompletionChannel::wait, AsyncCompletionChannel::wait_any,
/// AsyncCompletionChannel::wait_solicited, AsyncDeviceEvents::next.
#[test]
fn waits_end_with_their_runtime() {
    let runtime = runtime();
    let (dev, mut channel, mut events) = runtime.block_on(async {
        let dev = Device::open();
        let channel = dev.ctx.create_comp_channel().unwrap().into_async().unwrap();
        let events = dev.ctx.events().unwrap().into_async().unwrap();
        (dev, channel, events)
    });
    let mut cq: CompletionQueue = dev.ctx.cq(4).channel(channel.get_ref()).create().unwrap();
    drop(runtime);
    crate::waits::ends("a wait without a runtime", move || {
        let refused = [
            once(channel.wait(&mut cq)).map(|ended| ended.err()),
            once(channel.wait_solicited(&mut cq)).map(|ended| ended.err()),
            once(channel.wait_any(&mut [&mut cq])).map(|ended| ended.err()),
            loop {
                match once(events.next()) {
                    Some(Ok(DeviceEvent::Port { .. })) => {
                        assert!(once(events.next()).is_none(), "it steps aside");
                    }
                    ended => break ended.map(|ended| ended.err()),
                }
            },
        ];
        for ended in refused {
            let error = ended.expect("it ends").expect("with an error");
            assert_eq!((error.verb(), error.errno()), ("epoll_ctl", Some(5)), "EIO");
        }
    });
}

/// An awaited wait with a timeout ends in time, on a quiet queue and beside one that another
/// thread drops with its event.
/// Ends: AsyncCompletionChannel::wait, AsyncCompletionChannel::wait_any,
/// AsyncCompletionChannel::wait_solicited, AsyncDeviceEvents::next.
#[test]
fn an_awaited_wait_ends_in_time() {
    fails_on!(Iwarp, "R24.5");
    crate::waits::ends("an awaited wait with a timeout", || {
        runtime().block_on(async {
            let dev = Device::open();
            let pd = dev.ctx.alloc_pd().unwrap();
            let mut events = dev.ctx.events().unwrap().into_async().unwrap();
            let mut channel = dev.ctx.create_comp_channel().unwrap().into_async().unwrap();
            let mut quiet: CompletionQueue =
                dev.ctx.cq(4).channel(channel.get_ref()).create().unwrap();
            let pool = pd.create_pool(1, 64).unwrap();
            for round in 0..21 {
                let mut cq: CompletionQueue =
                    dev.ctx.cq(4).channel(channel.get_ref()).create().unwrap();
                let depth = Depth { send: 1, recv: 1 };
                let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
                let mut qp = Rc::init(qp, &Wish::new());
                assert!(cq.poll_or_arm(Notify::Any).unwrap().is_empty());
                qp.post_recv(wr::Recv::new(pool.take().expect("one buffer"))).unwrap();
                drop(qp.to_error().unwrap());
                let other = std::thread::spawn(move || drop(cq));
                let short = std::time::Duration::from_millis(2);
                let wait = async {
                    match round % 3 {
                        0 => drop(channel.wait(&mut quiet).await),
                        1 => drop(channel.wait_solicited(&mut quiet).await),
                        _ => drop(channel.wait_any(&mut [&mut quiet]).await),
                    }
                };
                let wait = tokio::time::timeout(short, wait).await;
                assert!(wait.is_err(), "{round}: nothing arrives on the quiet queue");
                let next = tokio::time::timeout(short, events.next()).await;
                assert!(matches!(next, Err(_) | Ok(Ok(DeviceEvent::Port { .. }))), "{next:?}");
                other.join().unwrap();
            }
        });
    });
}

/// The drain of a queue pair with a shared receive queue ends when its completion queue was found
/// empty.
#[test]
fn a_drain_beside_a_shared_receive_queue_ends() {
    fails_on!(Iwarp, "R24.5");
    profile! { Served { receive: SharedRq } }
    crate::waits::ends("a drain of a queue pair with a shared receive queue", || {
        runtime().block_on(async {
            let dev = Device::open();
            let pd = dev.ctx.alloc_pd().unwrap();
            let pool = pd.create_pool(4, 64).unwrap();
            let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
            srq.post_srq_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
            let mut channel = dev.ctx.create_comp_channel().unwrap().into_async().unwrap();
            let mut cq = dev.ctx.cq(20).channel(channel.get_ref()).create().unwrap();
            let qp = pd.create_qp::<Rc, Served>(&cq, &cq, Depth::on_srq(2, &srq)).unwrap();
            let mut qp = Rc::init(qp, &Wish::new()).to_error().unwrap();
            let found = |_: Drained<'_, Buf>| panic!("nothing was posted to this queue pair");
            qp.drain_async(&mut channel, &mut cq, found).await.unwrap();
        });
    });
}

/// Each event is reported, including those that arrived while no task waited.
#[test]
fn no_asynchronous_event_is_lost() {
    fails_on!(Iwarp, "R24.5");
    crate::waits::ends("the events of two queue pairs", || {
        runtime().block_on(async {
            let (a, b, dev) = ends();
            let mut events = dev.ctx.events().unwrap().into_async().unwrap();
            let mut expected = [a.qp.qp_num(), b.qp.qp_num()];
            let drain = Drain { notify: true };
            let stopped = (a.qp.modify(drain).unwrap(), b.qp.modify(drain).unwrap());
            let mut told = Vec::new();
            while told.len() < 2 {
                match events.next().await.unwrap() {
                    DeviceEvent::Qp { qp_num, event: QpEvent::SqDrained } => told.push(qp_num),
                    DeviceEvent::Port { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            told.sort_unstable();
            expected.sort_unstable();
            assert_eq!(told, expected);
            drop(stopped);
        });
    });
}

/// A drain that cannot wait returns an error instead of polling forever.
#[test]
fn a_drain_on_another_channel_is_refused() {
    crate::waits::ends("a drain on another channel", || {
        runtime().block_on(async {
            let (a, mut b, _dev) = ends();
            let End { mut qp, mut cq, pool, .. } = a;
            qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
            let mut qp = qp.to_error().unwrap();
            // It is flushed, taken and forgotten, so no completion will arrive.
            loop {
                if let Some(completion) = cq.poll_one().unwrap() {
                    break std::mem::forget(completion);
                }
                tokio::task::yield_now().await;
            }
            let found = |_: Drained<'_, Buf>| panic!("nothing is left");
            let refused = qp.drain_async(&mut b.channel, &mut cq, found).await.unwrap_err();
            assert!(refused.to_string().contains("channel"), "{refused}");
        });
    });
}
