//! Objects that one call makes, uses and ends: SRD, lanes, XRC, extended polling.

use super::*;

/// weight 4
fn create_srd_qp(w: &World) {
    let end = w.pick(0, [End::Drain, End::Drop, End::Destroy, End::Reset]);
    let polled = w.pick(0, [0, 1, 3]);
    let ready = w.pick(0, [0, 0, 2]);
    let removed = w.pick(0, [0, 1, 2]);
    let rounds = w.pick(0, [1, 3, 9]);
    let seed = w.pick(0, [0, 1, 2, 3, 4, 5]);
    w.spreads(seed, rounds, polled, removed, ready, end)
}

/// weight 2
fn alloc_lane(w: &World, pd: &Pd) {
    let order = w.pick(0, [0, 1, 2, 3]);
    w.lane(pd, order)
}

/// weight 2
fn cq_with_fields(w: &World, context: &Context, pd: &Pd) {
    let order = w.pick(0, [0, 1, 2, 3]);
    w.polls_fields(context, pd, order)
}

/// weight 2
fn open_xrcd(w: &World, context: &Context, pd: &Pd) {
    let order = w.pick(0, [0, 1, 2, 3, 4, 5]);
    if ALIKE {
        w.xrc(context, pd, order)
    }
}
