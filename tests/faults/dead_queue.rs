//! Waiting on a broken completion queue is an error at once, and never a sleep (R10.12).
//!
//! A completion queue whose poll failed returns the completions it already had and the
//! outstanding buffers.
//! Waiting on a dead completion queue returns an error and does not sleep.

use std::sync::mpsc;

use super::*;
use proverbs::completion::{AnyCompletionQueue, Notify, Waker};
use proverbs::events::{Found, WaitFor, wait};

/// A queue that is armed and empty when it breaks, its channel, and a queue pair with a receive
/// outstanding on it.
fn dead() -> (CompletionQueue, CompletionChannel, QueuePair<Rc, state::Err>) {
    let (fabric, cq, channel, qp) = flushed();
    fabric.inject(Script::seeded(0).with(Fault::BreakCq.nth(0)));
    (cq, channel, qp)
}

/// The same queue if it does not break: it has the completion of a flushed receive.
fn flushed() -> (Fabric, CompletionQueue, CompletionChannel, QueuePair<Rc, state::Err>) {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(1, 64).unwrap();
    let channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = dev.ctx.cq(8).channel(&channel).create().unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let mut qp = Rc::init(qp, &Wish::new());
    assert!(cq.poll_or_arm(Notify::Any).unwrap().is_empty());
    qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    (fabric, cq, channel, qp.to_error().unwrap())
}

type Wait = fn(
    &mut CompletionQueue,
    &mut CompletionChannel,
    QueuePair<Rc, state::Err>,
) -> Option<proverbs::Error>;

/// Ends: CompletionChannel::wait, CompletionChannel::wait_any,
/// CompletionChannel::wait_any_or_woken, CompletionChannel::wait_or_woken,
/// CompletionChannel::wait_solicited, CompletionChannel::wait_timeout, QueuePair::drain,
/// QueuePair::drain_within, wait.
#[test]
fn every_wait_reports_it() {
    let waits: [(&str, Wait); 10] = [
        ("wait", |cq, channel, _| channel.wait(cq).err()),
        ("wait_timeout", |cq, channel, _| channel.wait_timeout(cq, Duration::MAX).err()),
        ("wait_solicited", |cq, channel, _| channel.wait_solicited(cq, None).err()),
        ("wait_any", |cq, channel, _| channel.wait_any(&mut [cq], None).err()),
        ("wait_or_woken", |cq, channel, _| {
            channel.wait_or_woken(cq, &Waker::new().unwrap(), None).err()
        }),
        ("wait_any_or_woken", |cq, channel, _| {
            channel.wait_any_or_woken(&mut [cq], &Waker::new().unwrap(), None).err()
        }),
        ("events::wait", |cq, channel, _| wait([WaitFor::Cqs(channel, &mut [cq])], None).err()),
        ("poll_or_arm", |cq, _, _| cq.poll_or_arm(Notify::Any).err()),
        ("drain", |cq, _, mut qp| qp.drain(cq, |_| ()).err()),
        ("drain_within", |cq, _, mut qp| qp.drain_within(cq, Duration::MAX, |_| ()).err()),
    ];
    for (what, wait) in waits {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut cq, mut channel, qp) = dead();
            let first = wait(&mut cq, &mut channel, qp);
            // It stays broken.
            let again = channel.wait(&mut cq).err();
            let text =
                |error: Option<proverbs::Error>| error.map(|error| (error.verb(), error.errno()));
            tell.send((text(first), text(again))).unwrap();
        });
        let said = told.recv_timeout(long());
        let dead = Some(("ibv_poll_cq", Some(libc::EIO)));
        assert_eq!(said, Ok((dead, dead)), "{what}");
    }
}

/// A broken queue takes no events from the sources beside it.
/// Ends: wait.
#[test]
fn a_dead_queue_loses_no_event_of_others() {
    let (mut cq, mut channel, _qp) = dead();
    let waker = Waker::new().unwrap();
    for _ in 0..2 {
        waker.wake();
        let queues: &mut [&mut dyn AnyCompletionQueue] = &mut [&mut cq];
        let sources = [WaitFor::Wake(&waker), WaitFor::Cqs(&mut channel, queues)];
        let error = wait(sources, None).unwrap_err();
        assert_eq!((error.verb(), error.errno()), ("ibv_poll_cq", Some(libc::EIO)));
        assert!(matches!(wait([WaitFor::Wake(&waker)], None), Ok([Some(Found::Wake)])));
    }
}

/// A busy queue does not hide a broken one, and keeps its completions.
/// Ends: wait.
#[test]
fn a_dead_queue_is_reported_beside_a_busy_one() {
    let (mut cq, mut channel, _qp) = dead();
    let (_fabric, mut busy, mut other, _busy_qp) = flushed();
    let sources =
        [WaitFor::Cqs(&mut other, &mut [&mut busy]), WaitFor::Cqs(&mut channel, &mut [&mut cq])];
    let error = wait(sources, None).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("ibv_poll_cq", Some(libc::EIO)));
    let found = wait([WaitFor::Cqs(&mut other, &mut [&mut busy])], None);
    assert!(matches!(found, Ok([Some(Found::Cq(0))])));
    assert_eq!(busy.poll().unwrap().count(), 1);
}

/// Awaiting it reports the same.
/// Ends: AsyncCompletionChannel::wait, AsyncCompletionChannel::wait_any,
/// AsyncCompletionChannel::wait_solicited, QueuePair::drain_async.
#[cfg(all(feature = "tokio", not(miri)))]
#[test]
fn every_awaited_wait_reports_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for way in 0..4 {
            let (mut cq, channel, mut qp) = dead();
            let mut channel = channel.into_async().unwrap();
            for _ in 0..2 {
                let wait = async {
                    match way {
                        0 => channel.wait(&mut cq).await.err(),
                        1 => channel.wait_solicited(&mut cq).await.err(),
                        2 => channel.wait_any(&mut [&mut cq]).await.err(),
                        _ => qp.drain_async(&mut channel, &mut cq, |_| ()).await.err(),
                    }
                };
                let error = tokio::time::timeout(long(), wait).await;
                let error = error.expect("it ends").expect("with an error");
                let said = (error.verb(), error.errno());
                assert_eq!(said, ("ibv_poll_cq", Some(libc::EIO)), "{way}");
            }
        }
    });
}

/// A task that waits for room in a completion queue with a budget is woken.
/// Ends: QueuePair::recv_cq_room, QueuePair::send_cq_room.
#[test]
fn a_wait_for_room_says_so() {
    use std::sync::Arc;
    use std::task::{Context as Task, Poll, Wake, Waker as TaskWaker};

    #[derive(Default)]
    struct Flag(std::sync::atomic::AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq: CompletionQueue = dev.ctx.cq(2).shared_budget().create().unwrap();
    let depth = Depth { send: 8, recv: 8 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let mut qp = Rc::init(qp, &Wish::new());
    (0..cq.capacity()).for_each(|_| qp.post_recv(wr::Recv::empty()).unwrap());
    let flag = Arc::new(Flag::default());
    let waker = TaskWaker::from(flag.clone());
    let mut task = Task::from_waker(&waker);
    let mut room = std::pin::pin!(qp.recv_cq_room(1));
    assert!(room.as_mut().poll(&mut task).is_pending());
    fabric.inject(Script::seeded(0).with(Fault::FailPoll.always()));
    cq.poll().map(drop).unwrap_err();
    assert!(flag.0.load(std::sync::atomic::Ordering::Relaxed));
    let second = std::pin::pin!(qp.send_cq_room(1));
    for room in [room.as_mut() as std::pin::Pin<&mut dyn Future<Output = _>>, second] {
        let Poll::Ready(Err(error)) = room.poll(&mut task) else { panic!("it ends") };
        assert_eq!(*error.kind(), ErrorKind::CqGone);
    }
    let create = |handle| pd.create_qp::<Rc, DefaultProfile>(handle, handle, depth).unwrap_err();
    assert_eq!(*create(&cq.handle()).kind(), ErrorKind::CqGone);
}

/// One failed poll is enough: the device is not polled again, whatever it would return.
#[test]
fn a_broken_queue_stays_broken() {
    for way in 0..3 {
        let fabric = Device::fabric();
        let dev = Device::loopback(&fabric);
        let pd = dev.ctx.alloc_pd().unwrap();
        let channel = dev.ctx.create_comp_channel().unwrap();
        let mut cq: CompletionQueue = dev.ctx.cq(8).channel(&channel).create().unwrap();
        let pool = pd.create_pool(2, 64).unwrap();
        let depth = Depth { send: 1, recv: 2 };
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let mut qp = Rc::init(qp, &Wish::new());
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        let unused = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        fabric.inject(Script::seeded(0).with(Fault::FailPoll.always()));
        let mut look = |way: u32| {
            let error = match way {
                0 => cq.poll().map(drop).unwrap_err(),
                1 => cq.poll_one().map(drop).unwrap_err(),
                _ => cq.poll_or_arm(Notify::Any).map(drop).unwrap_err(),
            };
            assert_eq!((error.verb(), error.errno()), ("ibv_poll_cq", Some(libc::EIO)));
        };
        look(way);
        // From here on it would answer.
        assert_eq!(fabric.injected().fail_poll, 1);
        fabric.inject(Script::default());
        for again in [0, 1, 2, way] {
            look(again);
        }
        // Buffers of an existing queue pair do not return, and its room stays booked; all buffers
        // of a destroyed one return.
        let booked = cq.capacity() - cq.unbooked();
        assert_eq!((booked, pool.available()), (8, 1));
        let qp = qp.to_error().unwrap();
        drop(qp);
        assert_eq!((cq.capacity() - cq.unbooked(), pool.available()), (4, 2));
        // The same for one that posts only now. No others are created.
        let error = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::CqGone);
        let mut qp = Rc::init(unused, &Wish::new());
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        let qp = qp.reset().unwrap();
        assert_eq!(pool.available(), 2);
        drop(qp);
        assert_eq!(cq.unbooked(), cq.capacity());
    }
}

/// A queue pair that was destroyed before is cleaned up by the poll that fails.
#[test]
fn a_queue_pair_that_was_destroyed_before_the_failure() {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq: CompletionQueue = dev.ctx.create_cq(20).unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let depth = Depth { send: 1, recv: 2 };
    let make = || {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let mut qp = Rc::init(qp, &Wish::new());
        while qp.recv_room() > 0 && pool.available() > 0 {
            qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        }
        qp
    };
    let (gone, stays) = (make(), make());
    let booked = cq.capacity() - cq.unbooked();
    drop(gone);
    fabric.inject(Script::seeded(0).with(Fault::BreakCq.nth(0)));
    assert!(cq.poll().is_err());
    assert_eq!(cq.capacity() - cq.unbooked(), booked / 2, "of the existing queue pair");
    let held = stays.recvs_outstanding();
    assert_eq!(pool.available(), 4 - held);
    assert!(held > 0);
    drop(stays);
    assert_eq!((pool.available(), cq.unbooked()), (4, cq.capacity()));
}

profile! { OnSrq { receive: SharedRq } }

/// A dropped queue pair that waits for completions in a queue that breaks is destroyed with it.
#[test]
fn a_deferred_queue_pair_of_a_broken_completion_queue() {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let feed = pd.create_pool(2, 64).unwrap();
    let (sends, mut receives) =
        (dev.ctx.create_cq::<Buf>(8).unwrap(), dev.ctx.create_cq::<Buf>(8).unwrap());
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&feed).unwrap();
    srq.post_srq_recv(wr::Recv::new(feed.take().unwrap())).unwrap();
    let server = pd.create_qp::<Rc, OnSrq>(&sends, &receives, Depth::on_srq(2, &srq)).unwrap();
    let own = server.qp_num();
    drop(Rc::up(server, &dev, own, &Wish::new()));
    assert!(sends.unbooked() < sends.capacity(), "it waits");
    fabric.inject(Script::seeded(0).with(Fault::BreakCq.nth(0)));
    assert!(receives.poll().is_err());
    assert_eq!(sends.unbooked(), sends.capacity());
    srq.destroy().unwrap();
    assert_eq!(feed.available(), 2);
}

/// The queue pair's send completion queue broke before the queue pair was dropped, and it waits for
/// the other one. Its sends return with it when the shared receive queue is dropped.
#[test]
fn dropping_a_shared_receive_queue_returns_buffers_of_its_deferred_queue_pairs() {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let [feed, pool] = [(); 2].map(|()| pd.create_pool(2, 64).unwrap());
    let [mut sends, receives] = [(); 2].map(|()| dev.ctx.create_cq::<Buf>(8).unwrap());
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&feed).unwrap();
    srq.post_srq_recv(wr::Recv::new(feed.take().unwrap())).unwrap();
    let server = pd.create_qp::<Rc, OnSrq>(&sends, &receives, Depth::on_srq(2, &srq)).unwrap();
    let mut server = Rc::up(server, &dev, 77, &Wish::new());
    server.post_send(wr::Send::new(pool.take().unwrap())).unwrap();
    fabric.inject(Script::seeded(0).with(Fault::BreakCq.nth(0)));
    assert!(sends.poll().is_err());
    drop(server);
    assert_eq!(pool.available(), 1, "it waits");
    drop(srq);
    assert_eq!(pool.available(), 2);
    drop(receives);
    assert_eq!(feed.available(), 2);
}
