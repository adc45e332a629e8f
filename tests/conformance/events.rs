//! Completion channels: sleeping until there is a completion, without missing one.

use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use proverbs::completion::{AnyCompletionQueue, Direction, Notify};
use proverbs::device::CqId;
use proverbs::events::{WaitFor, wait};
use proverbs::prelude::*;

use crate::support::*;

/// A pair whose second end has its completion queue on a channel.
struct Waiting {
    p: Pair<Rc>,
    to: QueuePair<Rc, Rts>,
    cq: CompletionQueue,
    channel: CompletionChannel,
}

fn waiting() -> Waiting {
    let p = Pair::<Rc>::new();
    let channel = p.dev.ctx.create_comp_channel().unwrap();
    let cq = p.dev.ctx.cq(20).channel(&channel).create().unwrap();
    let wish = Wish::new();
    let Pair { a, b, ca, cb, pool, pd, dev } = p;
    drop(a);
    let a = pd.create_qp::<Rc, DefaultProfile>(&ca, &ca, wish.depth).unwrap();
    let to = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
    let (a, to) = Rc::connect((a, &pd), (to, &pd), &dev, &wish);
    Waiting { p: Pair { a, b, ca, cb, pool, pd, dev }, to, cq, channel }
}

fn first_byte<'cq>(completions: impl Iterator<Item = Completion<'cq, Buf>>) -> Vec<u8> {
    completions.map(|completion| completion.into_entry().unwrap()[0]).collect()
}

/// Whether reading a descriptor never blocks. An event that poll(2) reported may be gone when it is
/// read.
fn never_blocks(fd: &impl AsRawFd) -> bool {
    let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
    let info = std::fs::read_to_string(path).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    i32::from_str_radix(flags.trim(), 8).unwrap() & libc::O_NONBLOCK != 0
}

#[test]
#[cfg_attr(miri, ignore = "reads /proc")]
fn descriptors_of_events_never_block() {
    let Waiting { p, channel, .. } = waiting();
    assert!(never_blocks(&channel));
    assert!(never_blocks(&p.dev.ctx.events().unwrap()));
}

/// A wait without a timeout blocks in the read of the event. No other call does, regardless of
/// earlier calls.
#[test]
#[cfg_attr(miri, ignore = "reads /proc")]
fn calls_that_must_not_block_do_not_after_a_wait() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    let short = Duration::from_millis(1);
    for round in 0..3 {
        thread::scope(|scope| {
            to.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            let peer = scope.spawn(|| p.a.post_send(wr::Send::new(filled(&p.pool, &[round]))));
            assert_eq!(first_byte(channel.wait(&mut cq).unwrap()), [round]);
            peer.join().unwrap().unwrap();
        });
        poll(&p.dev, &mut p.ca, 1);
        // Events of completions that a poll found first may be left.
        match round {
            0 => {
                while channel.try_event().unwrap().is_some() {}
                assert!(never_blocks(&channel));
            }
            1 => assert!(channel.wait_timeout(&mut cq, short).unwrap().is_empty()),
            _ => {
                let all = [WaitFor::Cqs(&mut channel, &mut [&mut cq])];
                assert!(matches!(wait(all, Some(short)), Ok([None])));
            }
        }
    }
}

/// Proves R13.3.
#[test]
fn a_wait_does_not_sleep_past_pending_completions() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    for i in 0..3 {
        to.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    poll(&p.dev, &mut p.ca, 3);
    assert_eq!(first_byte(channel.wait(&mut cq).unwrap()), [0, 1, 2]);
}

/// Proves R13.1, R13.2, R13.4.
/// Ends: CompletionChannel::wait.
#[test]
fn every_one_of_many_waits_finds_a_completion() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    for i in 0..10u8 {
        to.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
        assert_eq!(first_byte(channel.wait(&mut cq).unwrap()), [i]);
        poll(&p.dev, &mut p.ca, 1);
    }
    // Events that were not taken, and events of an empty queue, have no effect.
    assert_eq!(poll_empty(&mut cq), 0);
    drop((to, channel, cq));
}

/// Proves R13.3, R13.9.
/// Ends: CompletionChannel::wait.
#[test]
fn another_thread_wakes_the_sleeper() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    // On iWARP a message without a receive ends the connection (R24.12).
    let rounds = if cfg!(miri) {
        2
    } else if p.dev.is_iwarp() {
        8
    } else {
        20
    };
    for _ in 0..8 {
        to.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let pool = p.pool.clone();
    let sleeper = std::thread::spawn(move || {
        let mut got = Vec::new();
        while got.len() < rounds {
            for completion in channel.wait(&mut cq).unwrap() {
                got.push(completion.into_entry().unwrap()[0]);
            }
            while to.recv_room() > 0 {
                to.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
            }
        }
        got
    });
    for i in 0..rounds {
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i as u8]))).unwrap();
        poll(&p.dev, &mut p.ca, 1);
    }
    assert_eq!(sleeper.join().unwrap(), (0..rounds as u8).collect::<Vec<_>>());
}

/// Ends: CompletionChannel::wait.
#[test]
fn errors_wake_a_sleeper_too() {
    fails_on!(IwarpOtherwise, "R24.12");
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    to.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let nowhere = RemoteSlice::<RemoteWrite>::from_parts(4096, 8, 0xdead_0000);
    p.a.post_send(wr::RdmaWrite::inline(&[1; 8], nowhere.write())).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RemAccess);
    let flushed = channel.wait(&mut cq).unwrap().next().unwrap();
    assert_eq!(flushed.status().unwrap_err().status, WcStatus::WrFlush);
    assert_eq!(flushed.direction(), Direction::Receive);
}

/// Proves R13.2, R13.5.
#[test]
fn only_solicited_completions_wake_but_all_are_returned() {
    fails_on!(Siw, "R13.5");
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    for _ in 0..3 {
        to.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    assert!(cq.poll_or_arm(Notify::Solicited).unwrap().is_empty());
    p.a.post_send(wr::Send::new(filled(&p.pool, &[1]))).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    assert_eq!(channel.try_event().unwrap(), None, "not solicited");
    p.a.post_send(wr::Send::new(filled(&p.pool, &[2])).solicited()).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    assert_eq!(event(&p.dev, &mut channel), cq.id());
    // Both are there, and the queue is no longer armed.
    assert_eq!(first_byte(cq.poll().unwrap()), [1, 2]);
    p.a.post_send(wr::Send::new(filled(&p.pool, &[3])).solicited()).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    assert_eq!(channel.try_event().unwrap(), None, "armed once");
    assert_eq!(first_byte(channel.wait_solicited(&mut cq, None).unwrap()), [3]);
}

/// Proves R13.6.
#[test]
fn an_arming_for_any_completion_is_not_weakened() {
    fails_on!(Siw, "R13.6");
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    to.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    assert!(cq.poll_or_arm(Notify::Any).unwrap().is_empty());
    assert!(cq.poll_or_arm(Notify::Solicited).unwrap().is_empty());
    p.a.post_send(wr::Send::new(filled(&p.pool, &[1]))).unwrap();
    assert_eq!(event(&p.dev, &mut channel), cq.id());
}

/// Proves R13.5.
#[test]
fn failures_wake_a_sleeper_for_solicited_completions() {
    fails_on!(Siw, "R13.5");
    let Waiting { p, mut to, mut cq, mut channel } = waiting();
    to.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    assert!(cq.poll_or_arm(Notify::Solicited).unwrap().is_empty());
    let dead = to.to_error().unwrap();
    by_rule! { p.dev, "R13.5",
        loopback: assert_eq!(event(&p.dev, &mut channel), cq.id(), "a flushed receive"),
        rxe from (6, 12): (),
    }
    let mut deadline = p.dev.deadline("the receive is flushed");
    let flushed = loop {
        match cq.poll_one().unwrap() {
            Some(completion) => break completion.status().unwrap_err().status,
            None => deadline.tick(&()),
        }
    };
    assert_eq!(flushed, WcStatus::WrFlush);
    by_rule! { p.dev, "R13.5",
        loopback: (),
        rxe from (6, 12): assert_eq!(channel.try_event().unwrap(), None),
    }
    drop(dead);
}

/// Proves R13.5.
#[test]
fn failed_sends_wake_if_the_device_says_so() {
    fails_on!(IwarpOtherwise, "R24.12");
    let Waiting { p, mut to, mut cq, mut channel } = waiting();
    let dead = p.a.to_error().unwrap();
    assert!(cq.poll_or_arm(Notify::Solicited).unwrap().is_empty());
    // The peer no longer answers, so the send stays until it is flushed.
    to.post_send(wr::Send::inline_slice(b"x")).unwrap();
    let to = to.to_error().unwrap();
    let mut deadline = p.dev.deadline("the send is flushed");
    while cq.poll().unwrap().is_empty() {
        deadline.tick(&());
    }
    let (events, id) = (channel.try_event().unwrap(), cq.id());
    by_rule! { p.dev, "R13.5",
        loopback: assert_eq!(events, Some(id)),
        rxe: assert_eq!(events, None),
    }
    drop((dead, to));
}

/// The next event of the channel, which never sleeps.
#[track_caller]
fn event(dev: &Device, channel: &mut CompletionChannel) -> CqId {
    let mut deadline = dev.deadline("an event must come");
    loop {
        match channel.try_event().unwrap() {
            Some(id) => return id,
            None => deadline.tick(&()),
        }
    }
}

/// Proves R13.9.
#[test]
fn one_channel_serves_many_queues() {
    let Waiting { p, to, cq, mut channel } = waiting();
    let Pair { a, b, ca, cb, pool, pd, dev } = p;
    drop((to, cq, a, b, cb));
    let mut first: CompletionQueue = dev.ctx.cq(20).channel(&channel).create().unwrap();
    let mut second: CompletionQueue<BufList> = dev.ctx.cq(20).channel(&channel).create().unwrap();
    let mut third: CompletionQueue = dev.ctx.cq(20).channel(&channel).create().unwrap();
    let wish = Wish::new();
    let a = pd.create_qp::<Rc, DefaultProfile>(&ca, &ca, wish.depth).unwrap();
    // Sends complete on the first queue, receives on the third.
    let b = pd.create_qp::<Rc, DefaultProfile>(&first, &third, wish.depth).unwrap();
    let (mut a, mut b) = Rc::connect((a, &pd), (b, &pd), &dev, &wish);
    for round in 0..3 {
        b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        a.post_send(wr::Send::new(filled(&pool, &[round]))).unwrap();
        let mut all: [&mut dyn AnyCompletionQueue; 3] = [&mut first, &mut second, &mut third];
        assert_eq!(channel.wait_any(&mut all, None).unwrap(), Some(2));
        assert_eq!(first_byte(third.poll().unwrap()), [round]);
        a.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        b.post_send(wr::Send::new(filled(&pool, &[round]))).unwrap();
        let mut all: [&mut dyn AnyCompletionQueue; 3] = [&mut first, &mut second, &mut third];
        assert_eq!(channel.wait_any(&mut all, None).unwrap(), Some(0));
        first.poll().unwrap().for_each(drop);
    }
    // An event identifies its queue.
    assert_ne!(first.id(), third.id());
    while channel.try_event().unwrap().is_some() {}
    assert!(first.poll_or_arm(Notify::Any).unwrap().is_empty());
    assert!(third.poll_or_arm(Notify::Any).unwrap().is_empty());
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    a.post_send(wr::Send::new(filled(&pool, &[9]))).unwrap();
    assert_eq!(event(&dev, &mut channel), third.id());
    drop((a, b, ca));
}

/// Ends: CompletionChannel::wait_any, CompletionChannel::wait_solicited,
/// CompletionChannel::wait_timeout.
#[test]
#[cfg_attr(miri, ignore = "Miri cannot wait on a descriptor")]
fn a_wait_ends_in_time() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    let short = Duration::from_millis(1);
    assert!(channel.wait_timeout(&mut cq, short).unwrap().is_empty());
    assert!(channel.wait_timeout(&mut cq, Duration::ZERO).unwrap().is_empty());
    assert!(channel.wait_solicited(&mut cq, Some(short)).unwrap().is_empty());
    assert_eq!(channel.wait_any(&mut [&mut cq], Some(short)).unwrap(), None);
    to.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, &[7]))).unwrap();
    assert_eq!(first_byte(channel.wait_timeout(&mut cq, Duration::MAX).unwrap()), [7]);
    poll(&p.dev, &mut p.ca, 1);
}

/// Proves R13.7.
#[test]
fn a_queue_without_a_channel_cannot_be_armed() {
    let mut p = Pair::<Rc>::new();
    let error = p.ca.poll_or_arm(Notify::Any).expect_err("no channel");
    let text = "ibv_req_notify_cq: EINVAL: Invalid argument (the completion queue has no \
                completion channel: create it with `context.cq(cqe).channel(&channel)`)";
    assert_eq!(said(&error), text);
}

/// Proves R13.7.
#[test]
fn a_queue_that_is_not_on_the_channel_is_refused() {
    let Waiting { mut p, mut channel, .. } = waiting();
    let error = channel.wait(&mut p.ca).expect_err("not on the channel");
    let text = "ibv_get_cq_event: EINVAL: Invalid argument (the completion queue is \
                not on this channel: create it with `context.cq(cqe).channel(&channel)`)";
    assert_eq!(said(&error), text);
}
