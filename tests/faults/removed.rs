//! A device breaks while calls wait on it: each call ends in time or with the event, and so does
//! the same call again.

use std::marker::Send as Sendable;
use std::sync::{Barrier, mpsc};
use std::thread;

use proverbs::completion::{Notify, Waker};

use super::*;

const SHORT: Duration = Duration::from_millis(20);

/// Runs it on a thread: one that never ends fails the test instead of hanging it.
fn ends<R: Sendable + 'static>(what: &str, wait: impl FnOnce() -> R + Sendable + 'static) -> R {
    let (tell, told) = mpsc::channel();
    let waiter = thread::spawn(move || tell.send(wait()).unwrap());
    match told.recv_timeout(long()) {
        Ok(done) => done,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} never ends"),
        Err(_) => std::panic::resume_unwind(waiter.join().unwrap_err()),
    }
}

/// The objects of a wait on a device that breaks: a queue that is armed, with a receive outstanding
/// whose flush is delayed.
struct Ground {
    fabric: Fabric,
    dev: Device,
    channel: CompletionChannel,
    cq: CompletionQueue,
    qp: QueuePair<Rc, state::Err>,
}

fn ground() -> Ground {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    fabric.inject(Script::seeded(0).with(Fault::FlushLate { runs: u32::MAX }.always()));
    let pd = dev.ctx.alloc_pd().unwrap();
    let channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = dev.ctx.cq(8).channel(&channel).create().unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let mut qp = Rc::init(qp, &Wish::new());
    assert!(cq.poll_or_arm(Notify::Any).unwrap().is_empty());
    qp.post_recv(wr::Recv::empty()).unwrap();
    Ground { qp: qp.to_error().unwrap(), fabric, dev, channel, cq }
}

/// Breaks the device while `wait` runs, or just before.
fn breaks<R>(fabric: &Fabric, device: &Context, wait: impl FnOnce() -> R) -> R {
    let both = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            both.wait();
            assert!(fabric.break_device(device));
        });
        both.wait();
        wait()
    })
}

type Wait = fn(&mut Ground, &Waker);

/// A queue of a broken device has no more completions, like one without traffic: the time limit, or
/// the program's handling of the device event, ends the wait.
/// Ends: CompletionChannel::wait_any, CompletionChannel::wait_any_or_woken,
/// CompletionChannel::wait_or_woken, CompletionChannel::wait_solicited,
/// CompletionChannel::wait_timeout, QueuePair::drain_within.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn every_wait_for_a_queue_ends() {
    let waits: [(&str, Wait); 8] = [
        ("wait_timeout", |g, _| {
            assert!(g.channel.wait_timeout(&mut g.cq, SHORT).unwrap().is_empty());
        }),
        ("wait_solicited", |g, _| {
            assert!(g.channel.wait_solicited(&mut g.cq, Some(SHORT)).unwrap().is_empty());
        }),
        ("wait_any", |g, _| {
            assert_eq!(g.channel.wait_any(&mut [&mut g.cq], Some(SHORT)).unwrap(), None);
        }),
        ("wait_or_woken", |g, waker| {
            assert!(g.channel.wait_or_woken(&mut g.cq, waker, Some(SHORT)).unwrap().is_empty());
        }),
        ("wait_any_or_woken", |g, waker| {
            let found = g.channel.wait_any_or_woken(&mut [&mut g.cq], waker, Some(SHORT));
            assert_eq!(found.unwrap(), None);
        }),
        ("wait_or_woken without a time", |g, waker| {
            waker.wake();
            assert!(g.channel.wait_or_woken(&mut g.cq, waker, None).unwrap().is_empty());
        }),
        ("wait_any_or_woken without a time", |g, waker| {
            waker.wake();
            let found = g.channel.wait_any_or_woken(&mut [&mut g.cq], waker, None);
            assert_eq!(found.unwrap(), None);
        }),
        ("drain_within", |g, _| {
            let left = g.qp.drain_within(&mut g.cq, SHORT, |_| panic!("it is not flushed"));
            assert_eq!(left.unwrap_err().errno(), Some(libc::ETIMEDOUT));
        }),
    ];
    for (what, wait) in waits {
        ends(what, move || {
            let (mut ground, waker) = (ground(), Waker::new().unwrap());
            let (fabric, device) = (ground.fabric.clone(), ground.dev.ctx.clone());
            breaks(&fabric, &device, || wait(&mut ground, &waker));
            wait(&mut ground, &waker);
        });
    }
}

/// A wait for device events ends at once, and reports the event once.
/// Ends: DeviceEvents::wait, DeviceEvents::wait_or_woken, DeviceEvents::wait_timeout.
#[test]
#[cfg_attr(miri, ignore = "Miri's sleepers poll")]
fn every_wait_for_device_events_ends() {
    for way in 0..3 {
        ends("a wait for device events", move || {
            let Ground { fabric, dev, .. } = ground();
            let (mut events, waker) = (dev.ctx.events().unwrap(), Waker::new().unwrap());
            let told = breaks(&fabric, &dev.ctx, || match way {
                0 => events.wait().map(Some),
                1 => events.wait_timeout(long()),
                _ => events.wait_or_woken(&waker, None),
            });
            assert_eq!(told.unwrap(), Some(DeviceEvent::DeviceFatal));
            for _ in 0..2 {
                assert_eq!(events.wait_timeout(SHORT).unwrap(), None);
                assert_eq!(events.wait_or_woken(&waker, Some(SHORT)).unwrap(), None);
            }
        });
    }
}

/// The same awaited, with a timeout.
/// Ends: AsyncCompletionChannel::wait, AsyncCompletionChannel::wait_any,
/// AsyncCompletionChannel::wait_solicited, AsyncDeviceEvents::next, QueuePair::drain_async.
#[cfg(all(feature = "tokio", not(miri)))]
#[test]
fn every_awaited_wait_ends() {
    use tokio::time::timeout;
    ends("an awaited wait", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for way in 0..4 {
            let Ground { fabric, dev, channel, mut cq, mut qp } = ground();
            let (mut channel, mut events) = {
                let _inside = runtime.enter();
                (channel.into_async().unwrap(), dev.ctx.events().unwrap().into_async().unwrap())
            };
            breaks(&fabric, &dev.ctx, || {
                runtime.block_on(async {
                    for _ in 0..2 {
                        let wait = async {
                            match way {
                                0 => drop(channel.wait(&mut cq).await),
                                1 => drop(channel.wait_solicited(&mut cq).await),
                                2 => drop(channel.wait_any(&mut [&mut cq]).await),
                                _ => drop(qp.drain_async(&mut channel, &mut cq, |_| ()).await),
                            }
                        };
                        assert!(timeout(SHORT, wait).await.is_err(), "{way}: nothing comes");
                    }
                    let told = timeout(long(), events.next()).await.expect("in time").unwrap();
                    assert_eq!(told, DeviceEvent::DeviceFatal);
                    assert!(timeout(SHORT, events.next()).await.is_err(), "told once");
                });
            });
        }
    });
}
