//! Every fault that a script can inject, and its effect on a program.
#![forbid(unsafe_code)]

#[allow(dead_code, unused_imports, unused_macros)] // Shared with the conformance suite.
#[path = "conformance/support/mod.rs"]
mod support;

#[path = "faults/busy.rs"]
mod busy;
#[path = "faults/clock.rs"]
mod clock;
#[path = "faults/dead_queue.rs"]
mod dead_queue;
#[path = "faults/late.rs"]
mod late;
#[path = "faults/removed.rs"]
mod removed;

use std::time::Duration;

use proverbs::bounded::{RnrRetries, RnrRetry, Timeout};
use proverbs::completion::Direction;
use proverbs::device::{DeviceEvent, QpEvent};
use proverbs::loopback::{Fabric, Fault, Injected, Script};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::{Drained, Max};
use proverbs::state::QpState;

use support::*;

profile! { Ring { signaling: Selective } }

fn pair<T: Bring<P>, P: Profile<Receive = OwnRq, Threads = AnyThread>>(
    script: Script,
    wish: &Wish,
) -> (Fabric, Pair<T, P>) {
    let fabric = Device::fabric();
    fabric.inject(script);
    (fabric.clone(), Pair::on(Device::loopback(&fabric), wish))
}

/// Sends messages of one byte each, 0 and so on, and returns those that arrive, in order.
fn arrivals<T>(p: &mut Pair<T>, n: u8) -> Vec<u8>
where
    T: Bring<DefaultProfile>,
    wr::WorkRequest<wr::Send, Buf>: wr::SendOn<T, DefaultProfile>,
{
    for _ in 0..8 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    for i in 0..n {
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    for sent in poll(&p.dev, &mut p.ca, n.into()) {
        sent.sent();
    }
    let mut got = Vec::new();
    for _ in 0..20 {
        for completion in p.cb.poll().unwrap() {
            let Outcome::Received(received) = completion.outcome() else { panic!("no arrival") };
            got.push(received.data()[0]);
        }
    }
    got
}

#[test]
fn uc_loses_duplicates_and_delays() {
    let script = Script::seeded(0)
        .with(Fault::Lose.nth(1))
        .with(Fault::Duplicate.nth(2))
        .with(Fault::Delay { runs: 3 }.nth(3));
    let (fabric, mut p) = pair::<Uc, _>(script, &Wish::new());
    assert_eq!(arrivals(&mut p, 6), [0, 2, 2, 4, 5, 3]);
    let injected = fabric.injected();
    assert_eq!((injected.lose, injected.duplicate, injected.delay), (1, 1, 1));
}

#[test]
fn rc_delivers_every_message_in_order() {
    let script = Script::seeded(0)
        .with(Fault::Lose.nth(1))
        .with(Fault::Duplicate.always())
        .with(Fault::Delay { runs: 3 }.nth(3))
        .with(Fault::NotReady.nth(4));
    let wish = Wish { timeout: Timeout::MS_67, ..Wish::new() };
    let (fabric, mut p) = pair::<Rc, _>(script, &wish);
    assert_eq!(arrivals(&mut p, 6), [0, 1, 2, 3, 4, 5]);
    let injected = fabric.injected();
    assert_eq!((injected.lose, injected.delay, injected.not_ready), (1, 1, 1));
    assert_eq!(injected.duplicate, 0, "a program on RC does not see it");
}

#[test]
fn datagrams_are_lost_duplicated_and_delayed() {
    let script = Script::seeded(0)
        .with(Fault::Lose.nth(0).on_transport::<Ud>())
        .with(Fault::Duplicate.nth(1))
        .with(Fault::Delay { runs: 1 }.nth(2));
    let (_, mut p) = pair::<Ud, DefaultProfile>(script, &Wish::new());
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    for _ in 0..4 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    for i in 0..4 {
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i])).to(to)).unwrap();
    }
    poll(&p.dev, &mut p.ca, 4);
    let got = poll(&p.dev, &mut p.cb, 4).into_iter();
    assert_eq!(got.map(|got| got.datagram().payload()[0]).collect::<Vec<_>>(), [1, 1, 3, 2]);
}

/// The statuses of `n` sends on RC, with receives for all.
fn statuses(script: Script, wish: &Wish, n: usize) -> Vec<Result<(), WcStatus>> {
    let (_, mut p) = pair::<Rc, DefaultProfile>(script, wish);
    for _ in 0..n {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, b"x"))).unwrap();
    }
    let done = poll(&p.dev, &mut p.ca, n).into_iter();
    let statuses = done.map(|done| match done {
        Done::Sent(_) => Ok(()),
        Done::Failed(failed) => Err(failed.error.status),
        other => panic!("{other:?}"),
    });
    let statuses = statuses.collect();
    assert_eq!((p.a.sends_outstanding(), p.a.send_room()), (0, 8));
    statuses
}

#[test]
fn errors_at_a_chosen_work_request() {
    let flushed = Err(WcStatus::WrFlush);
    for status in [WcStatus::RemOp, WcStatus::LocProt, WcStatus::Unknown(99)] {
        let script = Script::seeded(0).with(Fault::Fail(status).nth(1));
        assert_eq!(statuses(script, &Wish::new(), 4), [Ok(()), Err(status), flushed, flushed]);
    }
    let script = Script::seeded(0).with(Fault::ToError.nth(2));
    assert_eq!(statuses(script, &Wish::new(), 4), [Ok(()), Ok(()), flushed, flushed]);
}

#[test]
fn retries_run_out() {
    let wish = Wish {
        timeout: Timeout::MS_67,
        rnr_retry: RnrRetry::Times(RnrRetries::new(2).unwrap()),
        retry_cnt: 2,
        ..Wish::new()
    };
    let script = Script::seeded(0).with(Fault::NoAnswer.nth(1));
    let flushed = Err(WcStatus::WrFlush);
    assert_eq!(statuses(script, &wish, 3), [Ok(()), Err(WcStatus::RetryExc), flushed]);
    let script = Script::seeded(0).with(Fault::NeverReady.nth(0));
    assert_eq!(statuses(script, &wish, 2), [Err(WcStatus::RnrRetryExc), flushed]);
}

#[test]
fn the_device_fails_by_itself() {
    let (fabric, mut p) = pair::<Rc, DefaultProfile>(Script::default(), &Wish::new());
    p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    assert!(fabric.fail(p.a.qp_num()));
    assert!(!fabric.fail(p.a.qp_num() + 1000), "no such queue pair");
    poll(&p.dev, &mut p.ca, 1).remove(0).flushed(Direction::Receive).unwrap();
    assert_eq!(p.a.query().unwrap().state, Some(QpState::Err));
}

fn posts_refused_at<P>(k: u64, is_chain: bool)
where
    P: Profile<
            Receive = OwnRq,
            Threads = AnyThread,
            Entry = Buf,
            MaxSendSge = Max<1>,
            MaxInline = Max<64>,
            Initiator = Reads,
        >,
{
    for errno in [12, 22] {
        let script =
            Script::seeded(0).with(Fault::Refuse { errno }.nth(k).posting(Direction::Send));
        let (_, mut p) = pair::<Rc, P>(script, &Wish::new());
        let send = |i: u8| wr::Send::new(filled(&p.pool, &[i]));
        let error = if is_chain {
            post_send!(p.a, [send(0), send(1), send(2), send(3)]).unwrap_err()
        } else {
            let mut slots = SendSlots::<4>::new();
            let mut list = p.a.send_list(&mut slots);
            for i in 0..4 {
                list.push(send(i)).unwrap();
            }
            list.post().unwrap_err()
        };
        assert_eq!(error.kind(), PostErrorKind::Refused { errno });
        assert_eq!(error.accepted(), k as usize);
        let back: Vec<u8> = error.into_rejected().map(|buf| buf[0]).collect();
        assert_eq!(back, (k as u8..4).collect::<Vec<_>>());
        assert_eq!(p.a.sends_outstanding(), k as usize);
    }
}

#[test]
fn a_list_is_refused_at_each_index() {
    for (k, is_chain) in (0..4).flat_map(|k| [(k, true), (k, false)]) {
        posts_refused_at::<DefaultProfile>(k, is_chain);
        posts_refused_at::<Ring>(k, is_chain);
    }
    for k in 0..3 {
        let script = Script::seeded(0).with(Fault::Refuse { errno: 22 }.nth(k as u64));
        let (_, mut p) = pair::<Rc, DefaultProfile>(script, &Wish::new());
        let recv = |i: u8| wr::Recv::new(filled(&p.pool, &[i]));
        let error = post_recv!(p.a, [recv(0), recv(1), recv(2)]).unwrap_err();
        assert_eq!(error.accepted(), k);
        let back: Vec<u8> = error.into_rejected().map(|buf| buf[0]).collect();
        assert_eq!(back, (k as u8..3).collect::<Vec<_>>());
    }
}

/// Proves R18.31.
#[test]
fn a_post_with_unknown_outcome_keeps_everything_with_the_device() {
    for (taken, arrive) in [(true, 3), (false, 1)] {
        let script = Script::seeded(0)
            .with(Fault::OutcomeUnknown { errno: 22, taken }.nth(1).posting(Direction::Send));
        let (_, mut p) = pair::<Rc, DefaultProfile>(script, &Wish::new());
        for _ in 0..3 {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        }
        let send = |i: u8| wr::Send::new(filled(&p.pool, &[i]));
        let error = post_send!(p.a, [send(0), send(1), send(2)]).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::OutcomeUnknown { errno: 22 });
        assert_eq!(error.into_rejected().count(), 0);
        poll(&p.dev, &mut p.ca, arrive);
        assert_eq!(poll(&p.dev, &mut p.cb, arrive).len(), arrive);
        let error = p.a.post_send(wr::Send::new(wr::Empty)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::Poisoned);
        // The atomic's eight bytes exceed this buffer, which is returned unchanged.
        let mut short = poisoned(&p.pool);
        short.narrow(..3).unwrap();
        let region = p.pd.register::<RemoteAll>(8).unwrap();
        let cell = region.remote().atomic(0).unwrap();
        let error = p.a.post_send(wr::FetchAndAdd::new(short, cell, 1)).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::Poisoned);
        assert_eq!(error.into_rejected().next().map(|buf| buf.len()), Some(3));
        p.a.destroy().unwrap();
        assert_eq!(poll_empty(&mut p.ca), 0);
        assert_eq!((p.pool.reclaim(&mut p.ca), p.pool.available()), (0, 37 + arrive));
    }
}

/// A drain posts its own work request after unsignaled ones. If it is unknown whether the device
/// has it, it is not posted again: two completions would have one wr_id.
///
/// A drain does not post its own work request twice under one `wr_id`.
#[test]
fn a_drains_post_with_unknown_outcome_is_not_repeated() {
    for taken in [true, false] {
        let (fabric, mut p) = pair::<Rc, Ring>(Script::default(), &Wish::new());
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        let _later = p.a.post_send_unsignaled(wr::Send::new(filled(&p.pool, b"x"))).unwrap();
        let mut a = p.a.to_error().unwrap();
        let lost = Fault::OutcomeUnknown { errno: 22, taken }.one_in(1).posting(Direction::Send);
        fabric.inject(Script::seeded(0).with(lost));
        let mut back = 0;
        for _ in 0..2 {
            // Whether it succeeds depends on the device's outcome.
            let _ = a.drain_within(&mut p.ca, Duration::from_millis(20), |found| match found {
                Drained::Entry(_) => back += 1,
                Drained::Other(completion) => panic!("of nobody: {completion:?}"),
            });
        }
        assert!(back <= 1);
        assert_eq!(fabric.injected().outcome_unknown, 1, "it was posted once");
    }
}

#[test]
fn a_shared_receive_queue_is_refused_too() {
    let script =
        Script::seeded(0).with(Fault::Refuse { errno: 12 }.nth(1).posting(Direction::Receive));
    let fabric = Device::fabric();
    fabric.inject(script);
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool).unwrap();
    let recv = |i: u8| wr::Recv::new(filled(&pool, &[i]));
    let error = post_srq_recv!(srq, [recv(0), recv(1), recv(2)]).unwrap_err();
    assert_eq!((error.accepted(), error.into_rejected().count()), (1, 2));
}

#[test]
fn a_spurious_event_ends_no_wait() {
    let fabric = Device::fabric();
    fabric.inject(Script::seeded(0).with(Fault::SpuriousEvent.one_in(2)));
    let dev = Device::loopback(&fabric);
    let mut channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq = dev.ctx.cq(8).channel(&channel).create::<Buf>().unwrap();
    for _ in 0..20 {
        let got = channel.wait_timeout(&mut cq, Duration::from_millis(1)).unwrap();
        assert!(got.is_empty(), "there is no completion to wait for");
    }
    assert!(fabric.injected().spurious_event > 0);
}

#[test]
fn a_broken_completion_queue_stays_broken() {
    let script = Script::seeded(0).with(Fault::BreakCq.nth(3));
    let (_, mut p) = pair::<Rc, DefaultProfile>(script, &Wish::new());
    for _ in 0..3 {
        assert!(p.ca.poll_one().unwrap().is_none());
    }
    for _ in 0..2 {
        assert!(p.ca.poll_one().is_err());
    }
    assert!(p.cb.poll_one().unwrap().is_none(), "the other one lives");
}

/// A failure that no device returns would be taken for success, with the buffer at the device but
/// in no in-flight table.
///
/// A fault that rejects a post with errno 0 cannot be scripted.
#[test]
fn a_failure_with_a_success_code_is_not_a_fault() {
    let no_rule = |fault: Fault| std::panic::catch_unwind(|| fault.always()).is_err();
    for errno in [0, -22] {
        assert!(no_rule(Fault::Refuse { errno }));
        assert!(no_rule(Fault::OutcomeUnknown { errno, taken: true }));
    }
    assert!(no_rule(Fault::Fail(WcStatus::Unknown(0))));
    assert!(!no_rule(Fault::Refuse { errno: 1 }) && !no_rule(Fault::Fail(WcStatus::RemOp)));
}

#[test]
fn the_same_script_has_the_same_effects() {
    let run = |seed| {
        let script =
            Script::seeded(seed).with(Fault::Lose.one_in(3)).with(Fault::Duplicate.one_in(3));
        let (fabric, mut p) = pair::<Uc, _>(script, &Wish::new());
        (arrivals(&mut p, 8), fabric.injected())
    };
    assert_eq!(run(5), run(5));
    let differs = |seed| run(seed) != run(5);
    assert!((6..20).any(differs), "the seed decides");
}

#[test]
fn without_a_script_there_are_no_faults() {
    let (fabric, mut p) = pair::<Uc, _>(Script::default(), &Wish::new());
    assert_eq!(arrivals(&mut p, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(fabric.injected(), Injected::default());
    fabric.inject(Script::seeded(0).with(Fault::Lose.always().times(2).on_qp(p.a.qp_num())));
    assert_eq!(arrivals(&mut p, 4), [2, 3]);
}

#[test]
fn a_failure_without_a_completion_is_an_event() {
    let script = Script::seeded(0).with(Fault::BreakCq.nth(0));
    let (fabric, mut p) = pair::<Rc, DefaultProfile>(script, &Wish::new());
    let mut events = p.dev.ctx.events().unwrap();
    assert!(p.ca.poll().is_err());
    assert_eq!(events.try_next().unwrap(), Some(DeviceEvent::CqError { cq: p.ca.id() }));
    assert!(p.ca.poll().is_err(), "and stays broken");
    fabric.inject(Script::seeded(0).with(Fault::ToError.nth(0)));
    p.a.post_send(wr::Send::inline_slice(b"x")).unwrap();
    let fatal = DeviceEvent::Qp { qp_num: p.a.qp_num(), event: QpEvent::Fatal };
    assert_eq!(events.wait().unwrap(), fatal);
    assert_eq!(events.try_next().unwrap(), None);
}
