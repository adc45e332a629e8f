//! Arenas, and parts of buffers.

use super::*;

/// weight 2
fn create_arena(w: &World, pd: &Pd) -> Option<Arena> {
    let len = w.pick(0, [1024, 4096]);
    w.arena(pd, len)
}

/// weight 12
fn arena_take(w: &World, arena: &Arena) -> Option<Buf> {
    let len = w.pick(0, [0, 1, 41, 64, 200, 1500]);
    let tag = w.pick(0, [1, 17, 200]);
    arena.take(len).map(|buf| tagged(buf, len, tag))
}

/// weight 2
fn arena_len(w: &World, arena: &Arena) {
    let (free, len) = (arena.available(), arena.len());
    if arena.longest() > free || free > len || arena.spare() > arena.count() || arena.is_empty() {
        w.complain("more of an arena is free than there is")
    }
}

/// weight 2
fn arena_reclaim(w: &World, arena: &Arena, cq: &mut Cq<E>) {
    let _ = arena.reclaim(cq);
}

/// weight 1
fn arena_destroy(w: &World, arena: Arena) -> Option<Arena> {
    arena.destroy().err().map(|refused| refused.into_object())
}

/// weight 5
fn narrow(w: &World, buf: &mut Buf) {
    let from = w.pick(0, [0, 1, 13]);
    let to = w.pick(0, [13, 17, 24, 60]);
    if buf.narrow(from..to).is_ok()
        && (buf.len() != to - from || buf.capacity() != buf.len().max(1))
    {
        w.complain("a buffer was narrowed to something else")
    }
}

/// weight 4
fn widen(w: &World, buf: &mut Buf) {
    buf.widen();
    for (i, byte) in buf.iter_mut().enumerate() {
        *byte = i as u8
    }
}

/// weight 6
fn split_off(w: &World, buf: &mut Buf) -> Option<Buf> {
    let at = w.pick(0, [1, 32, 100]);
    let all = buf.capacity();
    let rest = buf.split_off(at).ok();
    if buf.capacity() + rest.as_ref().map_or(0, |rest| rest.capacity()) != all {
        w.complain("the parts of a buffer are not as long as it was")
    }
    rest
}

/// weight 6
fn join(w: &World, one: &mut Buf, two: Buf) -> Option<Buf> {
    let back = one.join(two).err().map(Refused::into_object);
    for (i, byte) in one.iter_mut().enumerate() {
        *byte = i as u8
    }
    back
}

/// weight 1; kin pd arena
fn create_srq_of_an_arena(w: &World, pd: &Pd, arena: &Arena) -> Option<Srq<AnyShares>> {
    w.made(pd.create_srq::<AnyShares, Buf, Max<1>, _>(arena))
}

/// weight 14; at qp cq
fn drains_whose_own_post_has_no_known_outcome_and_the_queue_pair_is_used_again(
    w: &World,
    context: &Context,
    qp: Qp<Rc, AnyState, AnyProfile>,
    cq: &mut Cq<EntryOf<AnyProfile>>,
) -> Option<Qp<Rc, Rts, AnyProfile>> {
    let n = w.pick(0, [1, 2, 7]);
    let runs = w.pick(0, [0, 2, 5]);
    let taken = w.pick(0, [true, true, false]);
    let qp = qp.reset().ok().and_then(|qp| w.alone(context, qp));
    w.dry(cq);
    let qp = qp.and_then(|mut qp| {
        for _ in 0..n {
            w.posted(qp.post_send(wr::Send::inline(&[1, 2])));
        }
        qp.to_error().ok()
    });
    w.inject_lenient(
        Script::default()
            .with(Fault::OutcomeUnknown { errno: 5, taken: taken }.nth(0).posting(Direction::Send))
            .with(Fault::FlushLate { runs: runs }.always()),
    );
    let qp = qp.and_then(|mut qp| {
        for _ in 0..n {
            let _ = qp.drain_within(cq, std::time::Duration::ZERO, |found| drop(found));
            w.bounded(&mut qp);
        }
        w.inject(Script::default());
        let _ = qp.drain_within(cq, w.patience(), |found| drop(found));
        w.bounded(&mut qp);
        qp.reset().ok()
    });
    let mut qp = qp.and_then(|qp| w.alone(context, qp));
    if let Some(qp) = &mut qp {
        while w.posted(qp.post_send(wr::Send::inline(&[]))) {}
        w.bounded(qp);
    }
    qp
}

/// weight 6; alone
fn a_completion_queue_dies_and_gives_back_what_its_queues_had(
    w: &World,
    context: &Context,
    pd: &Pd,
    pool: &Pool,
) {
    let ends = w.pick(0, [true, false]);
    let fault = w.pick(0, [Fault::BreakCq, Fault::FailPoll]);
    let n = w.pick(0, [1, 2, 4]);
    if let Ok(mut cq) = context.create_cq::<Buf>(64) {
        let pairs = w.join(
            context,
            pd.create_qp::<AnyConnected, DefaultProfile>(&cq, &cq, DEPTH).ok(),
            pd.create_qp::<AnyConnected, DefaultProfile>(&cq, &cq, DEPTH).ok(),
            None,
            ALIKE,
        );
        if let (Some(mut one), Some(mut two)) = pairs {
            let before = pool.available();
            for _ in 0..n {
                if let Some(buf) = pool.take() {
                    w.posted(one.post_recv(wr::Recv::new(buf)));
                }
                if let Some(buf) = pool.take() {
                    w.posted(two.post_send(wr::Send::new(tagged(buf, 9, 1))));
                }
            }
            if ends {
                drop((one, two));
                w.inject_broken(Script::default().with(fault.nth(0)));
                let _ = w.polled(cq.poll()).map(drop);
            } else {
                w.inject_broken(Script::default().with(fault.nth(0)));
                let _ = w.polled(cq.poll()).map(drop);
                drop((one, two));
            }
            w.dead(&mut cq, pool, before);
        }
    }
}

/// weight 12; settles cq
fn clients_of_a_shared_receive_queue_crash(
    w: &World,
    context: &Context,
    pd: &Pd,
    cq: &mut Cq<Buf>,
    srq: &Srq<Rc>,
) {
    w.dry(cq);
    w.brings(srq.id(), cq.id());
    let pair = w.join(
        context,
        w.made(pd.create_qp::<Rc, AnyShared>(cq, cq, Depth::on_srq(7, srq))),
        w.made(pd.create_qp::<Rc, AnyShared>(cq, cq, Depth::on_srq(7, srq))),
        Some(srq.id()),
        ALIKE,
    );
    if let (Some(mut one), Some(mut two)) = pair {
        let all = w.expects(&mut one, &mut two, Some((srq.id(), cq.id(), srq.recvs_outstanding())));
        let number = two.qp_num();
        for i in 0..all {
            w.posted(one.post_send(wr::SendWithImm::inline(&[], i)));
        }
        drop((two, one));
        w.crashed(number, cq, all);
    }
}

/// weight 8
fn arena_in_memory(
    w: &World,
    pd: &Pd,
    memory: AnyPrivate,
) -> (Option<ArenaIn<AnyPrivate>>, Option<AnyPrivate>) {
    let count = w.pick(0, [1, 4, 8, 0]);
    match pd.arena(count).create_in(memory) {
        Ok(arena) => (Some(arena), None),
        Err(refused) => (None, Some(refused.into_object())),
    }
}

/// weight 20
fn take_of_an_arena_of_own_memory(w: &World, arena: &ArenaIn<M>) -> Option<Buf> {
    let len = w.pick(0, [1, 41, 64, 200]);
    let tag = w.pick(0, [1, 17, 200]);
    arena.take(len).map(|buf| tagged(buf, len, tag))
}

/// weight 8; alone
fn own_memory_comes_back_from_an_arena(
    w: &World,
    arena: ArenaIn<M>,
) -> (Option<ArenaIn<M>>, Option<M>) {
    w.cleared(arena)
}
