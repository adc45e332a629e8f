//! Retries by a clock that a test stops and moves. They run out when their time has passed, however
//! often and on however many threads the program polls.

use std::sync::mpsc;
use std::thread;

use super::*;
use proverbs::bounded::MinRnrTimer;
use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs, CompletionWallclock};
use proverbs::loopback::Personality;
use proverbs::qp::{RcReturn, RcRtsOptional};

type BothClocks = (CompletionTs, CompletionWallclock);

/// The timer that `Wish` and `Bring` give a queue pair: code 1.
const RNR_TIMER: Duration = Duration::from_micros(10);
const NS: Duration = Duration::from_nanos(1);
/// More polls than it takes to use up retries while no clock is stopped.
const POLLS: usize = if cfg!(miri) { 1200 } else { 5000 };

fn rnr(times: u8) -> Wish {
    Wish { rnr_retry: RnrRetry::Times(RnrRetries::new(times).unwrap()), ..Wish::new() }
}

fn patient(timeout: u8, retry_cnt: u8) -> Wish {
    Wish { timeout: Timeout::exponent(timeout).unwrap(), retry_cnt, ..Wish::new() }
}

/// A pair whose clock is stopped.
fn stopped(wish: &Wish) -> (Fabric, Pair<Rc>) {
    let (fabric, p) = pair::<Rc, _>(Script::default(), wish);
    fabric.stop_clock();
    (fabric, p)
}

/// A multiple of `time`: the slowest devices take up to four times as long.
#[track_caller]
fn is_due(wait: Option<Duration>, time: Duration) -> Duration {
    let wait = wait.expect("a send waits");
    let most = match Device::personality() {
        Personality::Worst { .. } => 4,
        _ => 1,
    };
    assert!((1..=most).any(|times| wait == time * times), "{wait:?} is due after {time:?}");
    wait
}

#[track_caller]
fn nothing_comes(cq: &mut CompletionQueue) {
    for _ in 0..POLLS {
        assert!(cq.poll_one().unwrap().is_none());
    }
}

/// R8.11: three retries take three times the peer's RNR timer, and no less.
/// Proves R8.11.
#[test]
fn rnr_retries_run_out_in_their_time() {
    let (fabric, mut p) = stopped(&rnr(3));
    assert_eq!(fabric.next_timer(), None);
    p.a.post_send(wr::Send::new(filled(&p.pool, b"early"))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"behind"))).unwrap();
    let wait = is_due(fabric.next_timer(), 3 * RNR_TIMER);
    nothing_comes(&mut p.ca);
    fabric.advance(wait - NS);
    nothing_comes(&mut p.ca);
    assert_eq!(fabric.next_timer(), Some(NS));
    fabric.advance(NS);
    let mut done = poll(&p.dev, &mut p.ca, 2);
    assert!(done.remove(1).flushed(Direction::Send).is_some());
    let failed = done.remove(0).failed(Direction::Send, WcStatus::RnrRetryExc);
    assert_eq!(failed.entry.unwrap().len(), 5);
    assert_eq!(fabric.next_timer(), None);
}

/// The receiver sets the timer, and the sender the count (`min_rnr_timer` and `rnr_retry` of
/// ibv_modify_qp(3)).
#[test]
fn the_receiver_sets_the_time_of_a_retry() {
    let (fabric, mut p) = stopped(&rnr(1));
    let timer = MinRnrTimer::new(31).unwrap();
    let slow = RcReturn(RcRtsOptional { min_rnr_timer: Some(timer), ..Default::default() });
    p.b = stop(&p.dev, p.b).modify(slow).unwrap();
    p.a.post_send(wr::Send::inline(b"early")).unwrap();
    is_due(fabric.next_timer(), timer.duration());
}

/// A receive that is posted just before the time is over lets the send succeed, and the next send
/// has all its retries.
#[test]
fn a_receive_in_time_lets_the_send_succeed() {
    let (fabric, mut p) = stopped(&rnr(1));
    for number in 0..2 {
        p.a.post_send(wr::Send::new(filled(&p.pool, &[number]))).unwrap();
        let wait = is_due(fabric.next_timer(), RNR_TIMER);
        fabric.advance(wait - NS);
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        fabric.advance(Duration::from_secs(3600));
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        holds(poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap(), &[number]);
    }
}

/// With `rnr_retry` 7 a send waits forever, and with 0 it does not wait at all.
/// Proves R8.11.
#[test]
fn rnr_retry_7_is_endless_and_0_is_immediate() {
    let (fabric, mut p) = stopped(&Wish::new());
    p.a.post_send(wr::Send::new(filled(&p.pool, b"patient"))).unwrap();
    assert_eq!(fabric.next_timer(), None);
    fabric.advance(Duration::MAX);
    nothing_comes(&mut p.ca);
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).sent();

    let (fabric, mut p) = stopped(&rnr(0));
    p.a.post_send(wr::Send::inline(b"early")).unwrap();
    assert_eq!(fabric.next_timer(), None);
    poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RnrRetryExc);
}

/// R8.9, R8.10: a send to a silent peer fails after one more than `retry_cnt` timeouts.
/// Proves R8.9, R8.10.
#[test]
fn a_send_to_a_silent_peer_fails_in_its_time() {
    for retry_cnt in [0, 1, 7] {
        let (fabric, mut p) = stopped(&patient(14, retry_cnt));
        let qp_num = p.a.qp_num();
        fabric.inject(Script::default().with(Fault::NoAnswer.always().on_qp(qp_num)));
        p.a.post_send(wr::Send::new(filled(&p.pool, b"anybody?"))).unwrap();
        let timeout = Duration::from_nanos(4096 << 14);
        let wait = is_due(fabric.next_timer(), timeout * (u32::from(retry_cnt) + 1));
        fabric.advance(wait - NS);
        nothing_comes(&mut p.ca);
        fabric.advance(NS);
        poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RetryExc);
    }
    // R8.9: without a timeout, never.
    let (fabric, mut p) = stopped(&Wish::new());
    let _silent = p.b.to_error().unwrap();
    p.a.post_send(wr::Send::inline(b"anybody?")).unwrap();
    fabric.advance(Duration::MAX);
    nothing_comes(&mut p.ca);
}

/// A message that is lost once is sent again, if there is a retry left.
#[test]
fn one_loss_takes_one_retry() {
    for retry_cnt in [0, 1] {
        let (fabric, mut p) = stopped(&patient(14, retry_cnt));
        fabric.inject(Script::default().with(Fault::Lose.nth(0)));
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, b"once more"))).unwrap();
        fabric.advance(Duration::from_secs(60));
        let done = poll(&p.dev, &mut p.ca, 1).remove(0);
        match retry_cnt {
            0 => drop(done.failed(Direction::Send, WcStatus::RetryExc)),
            _ => drop(done.sent()),
        }
    }
}

/// Several timers expire during one move: each send fails in its turn.
#[test]
fn timers_run_out_in_the_order_of_time() {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    fabric.stop_clock();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq: CompletionQueue = dev.ctx.create_cq(60).unwrap();
    // The slowest is posted first.
    let senders: Vec<_> = [20, 17, 14]
        .map(|exponent| {
            let wish = Wish { depth: Depth { send: 1, recv: 1 }, ..patient(exponent, 3) };
            let a = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
            let b = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
            let (na, nb) = (a.qp_num(), b.qp_num());
            let (mut a, b) = (Rc::up(a, &dev, nb, &wish), Rc::up(b, &dev, na, &wish));
            a.post_send(wr::Send::inline(b"anybody?")).unwrap();
            (a, b.to_error().unwrap())
        })
        .into();
    assert_eq!(poll_empty(&mut cq), 0);
    fabric.advance(Duration::from_secs(3600));
    let given_up = poll(&dev, &mut cq, 3).into_iter();
    let given_up: Vec<_> = given_up
        .map(|done| done.failed(Direction::Send, WcStatus::RetryExc).error.qp_num)
        .collect();
    let quickest_first: Vec<_> = senders.iter().rev().map(|(a, _)| a.qp_num()).collect();
    assert_eq!(given_up, quickest_first);
}

/// Timestamps of completions use the same clock.
#[test]
fn timestamps_move_with_the_clock() {
    let (fabric, dev) = {
        let fabric = Device::fabric();
        (fabric.clone(), Device::loopback(&fabric))
    };
    if Device::personality() == Personality::Rxe {
        return println!("this device has no clock");
    }
    let clock = dev.ctx.query_device_ex().unwrap().clock().unwrap();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut ca: CompletionQueueEx<BothClocks> = dev.ctx.cq(8).fields().create().unwrap();
    let cb: CompletionQueue = dev.ctx.create_cq(8).unwrap();
    let wish = Wish { depth: Depth { send: 2, recv: 2 }, ..Wish::new() };
    let a = pd.create_qp::<Rc, DefaultProfile>(&ca, &ca, wish.depth).unwrap();
    let b = pd.create_qp::<Rc, DefaultProfile>(&cb, &cb, wish.depth).unwrap();
    let (na, nb) = (a.qp_num(), b.qp_num());
    let (mut a, mut b) = (Rc::up(a, &dev, nb, &wish), Rc::up(b, &dev, na, &wish));
    let mut sent_at = || {
        b.post_recv(wr::Recv::empty()).unwrap();
        a.post_send(wr::Send::new(wr::Empty)).unwrap();
        let (_, fields) = ca.poll().unwrap().next().expect("the device has done the work");
        (fields.completion_ts().unwrap(), fields.completion_wallclock_ns().unwrap())
    };
    let first = sent_at();
    fabric.advance(Duration::from_millis(300));
    let second = sent_at();
    // Two completions are made in each turn, and each takes 8 µs.
    let passed = Duration::from_micros(300_000 + 16);
    assert_eq!(clock.between(first.0, second.0), passed);
    assert_eq!(Duration::from_nanos(second.1 - first.1), passed);
}

/// The program's threads poll as fast as they can, and no send fails until the test moves the
/// clock; then the thread that waits for an event wakes.
#[test]
fn polling_threads_use_up_no_retries() {
    let (fabric, p) = stopped(&rnr(1));
    let Pair { mut a, b, mut ca, mut cb, pool, dev, .. } = p;
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            a.post_send(wr::Send::new(filled(&pool, b"early"))).unwrap();
            let done = poll(&dev, &mut ca, 1).remove(0);
            tell.send(done.failed(Direction::Send, WcStatus::RnrRetryExc)).unwrap();
        });
        let wait = loop {
            match fabric.next_timer() {
                Some(wait) => break wait,
                None => thread::yield_now(),
            }
        };
        nothing_comes(&mut cb);
        assert!(told.try_recv().is_err());
        fabric.advance(wait);
        assert_eq!(told.recv().unwrap().entry.unwrap().len(), 5);
    });
    drop(b);
}
