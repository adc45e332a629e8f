//! Faults. A calm turn has none.

use super::*;

/// weight 8
fn fault(w: &World) {
    let fault = w.pick(
        0,
        [
            Fault::Duplicate,
            Fault::NotReady,
            Fault::NeverReady,
            Fault::Fail(WcStatus::LocProt),
            Fault::ToError,
            Fault::Refuse { errno: 12 },
            Fault::Refuse { errno: 12 },
            Fault::SpuriousEvent,
        ],
    );
    let n = w.pick(0, [1, 2, 5]);
    let seed = w.pick(0, [1, 2, 3]);
    let times = w.pick(0, [1, 3]);
    w.inject(Script::seeded(seed).with(fault.one_in(n).times(times)));
}

/// weight 6
fn fault_of_which_entries_stay_away_for_a_while(w: &World) {
    let fault = w.pick(
        0,
        [
            Fault::Lose,
            Fault::Delay { runs: 3 },
            Fault::NoAnswer,
            Fault::FlushLate { runs: 4 },
            Fault::FlushLate { runs: 9 },
        ],
    );
    let n = w.pick(0, [1, 2, 5]);
    let seed = w.pick(0, [1, 2, 3]);
    let times = w.pick(0, [1, 3]);
    w.inject_lenient(Script::seeded(seed).with(fault.one_in(n).times(times)));
}

/// weight 5
fn fault_of_unknown_outcome(w: &World) {
    let late = w.pick(0, [0, 3]);
    let n = w.pick(0, [0, 0, 1, 3]);
    let side = w.pick(0, [Direction::Send, Direction::Send, Direction::Receive]);
    let taken = w.pick(0, [true, false]);
    w.inject_lenient(
        Script::default()
            .with(Fault::OutcomeUnknown { errno: 5, taken: taken }.nth(n).posting(side))
            .with(Fault::FlushLate { runs: 4 }.always().times(late)),
    );
}

/// weight 6
fn fault_by_which_a_completion_queue_breaks(w: &World) {
    let fault = w.pick(0, [Fault::BreakCq, Fault::FailPoll]);
    let n = w.pick(0, [0, 2, 5]);
    w.inject_broken(Script::default().with(fault.nth(n).times(1)));
}

/// weight 12
fn fault_by_which_the_device_keeps_what_it_should_destroy_until_it_is_asked_again(w: &World) {
    let n = w.pick(0, [0, 1, 2, 4]);
    w.inject(Script::default().with(Fault::Busy.nth(n).times(1)));
}

/// weight 4
fn injected(w: &World) {
    w.fabric.inject(Script::default());
    let _ = w.fabric.injected().by_kind();
}

/// weight 4
fn fail(w: &World, qp: &Qp<T, AnyBegun, P>) {
    w.fabric.fail(qp.qp_num());
}

/// weight 1
fn break_device(w: &World, context: &Context) {
    w.break_device(context);
}

/// weight 2
fn raise(w: &World, context: &Context) {
    let event = w.pick(0, [18, 77, 9]);
    let _ = w.fabric.raise(context, event);
}
