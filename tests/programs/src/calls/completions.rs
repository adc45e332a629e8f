//! Completions.

use super::*;

/// weight 40
fn poll<'a>(w: &World, cq: &'a mut Cq<E>) -> Option<Completions<'a, E>> {
    w.polled(cq.poll())
}

/// weight 15
fn poll_one<'a>(w: &World, cq: &'a mut Cq<E>) -> Option<Completion<'a, E>> {
    w.polled(cq.poll_one()).flatten()
}

/// weight 5
fn poll_or_arm<'a>(w: &World, cq: &'a mut Cq<E>) -> Option<Completions<'a, E>> {
    let how = w.pick(0, [Notify::Any, Notify::Solicited]);
    w.polled(cq.poll_or_arm(how))
}

/// weight 8; settles cq
fn dry(w: &World, cq: &mut Cq<E>) {
    w.dry(cq);
}

/// weight 20; at one cq; settles cq
fn load(
    w: &World,
    cq: &mut Cq<EntryOf<AnyProfile>>,
    one: &mut Qp<AnyConnected, Rts, AnyProfile>,
    two: &mut Qp<AnyConnected, Rts, AnyProfile>,
) {
    let n = w.pick(0, [1, 2, 3]);
    for _ in 0..w.rounds(cq.capacity()) {
        for _ in 0..2 {
            w.posted(two.post_recv(wr::Recv::empty()));
            w.posted(one.post_send(wr::Send::inline(&[])));
        }
        for _ in 0..n {
            let _ = w.polled(cq.poll_one());
        }
    }
    w.loaded(cq);
}

/// weight 20; at one cq; settles cq
fn heavy_load(
    w: &World,
    cq: &mut Cq<EntryOf<AnyProfile>>,
    one: &mut Qp<AnyConnected, Rts, AnyProfile>,
    two: &mut Qp<AnyConnected, Rts, AnyProfile>,
) {
    for _ in 0..w.rounds(cq.capacity() / 4) {
        for _ in 0..8 {
            for qp in [&mut *one, &mut *two] {
                w.posted(qp.post_recv(wr::Recv::empty()));
            }
            for qp in [&mut *one, &mut *two] {
                w.posted(qp.post_send(wr::Send::inline(&[])));
            }
        }
        let _ = w.polled(cq.poll()).map(|all| all.for_each(drop));
    }
    w.loaded(cq);
}

/// weight 24; at one cq; settles cq
fn clients_come_and_go_under_load(
    w: &World,
    pd: &Pd,
    cq: &mut Cq<EntryOf<AnyProfile>>,
    one: &mut Qp<AnyConnected, Rts, AnyProfile>,
    two: &mut Qp<AnyConnected, Rts, AnyProfile>,
) {
    let all = w.pick(0, [1, 2, 8]);
    let each = w.pick(0, [4, 16, 30]);
    let rounds = w.rounds(cq.capacity());
    for i in 0..2 * rounds {
        if i % each == 0 && i < rounds {
            if let Ok(client) = pd.create_qp::<AnyConnected, AnyProfile>(cq, cq, DEPTH) {
                w.client(client, |client| {
                    for _ in 0..3 {
                        w.posted(client.post_recv(wr::Recv::empty()));
                    }
                });
            }
        }
        for _ in 0..all {
            w.posted(two.post_recv(wr::Recv::empty()));
            w.posted(one.post_send(wr::Send::inline(&[])));
            w.posted(one.post_recv(wr::Recv::empty()));
            w.posted(two.post_send(wr::Send::inline(&[])));
        }
        if all == 8 {
            let _ = w.polled(cq.poll()).map(|all| all.for_each(drop));
        } else {
            for _ in 0..3 {
                let _ = w.polled(cq.poll_one());
            }
        }
    }
    w.loaded(cq);
}

/// weight 20
fn sent_and_the_receiver_goes(
    w: &World,
    one: &mut Qp<AnyConnected, Rts, AnyQuiet>,
    two: Qp<AnyConnected, Rts, AnyQuiet>,
) {
    let n = w.pick(0, [1, 3, 8]);
    for _ in 0..n {
        w.posted(one.post_send(wr::Send::inline(&[1, 2, 3])));
    }
    let _ = two.query();
    drop(two);
}

/// weight 20; at qp cq
fn given_up_while_it_is_full_and_drains_that_are_interrupted(
    w: &World,
    context: &Context,
    qp: Qp<Rc, AnyState, AnyProfile>,
    cq: &mut Cq<EntryOf<AnyProfile>>,
    pool: &Pool,
) -> Option<Qp<Rc, Err, AnyProfile>> {
    let fault = w.pick(
        0,
        [
            Fault::ToError.nth(1000),
            Fault::ToError.nth(1000),
            Fault::OutcomeUnknown { errno: 5, taken: true }.nth(0).posting(Direction::Send),
        ],
    );
    let most = w.pick(0, [1, 2, 99]);
    let n = w.pick(0, [1, 2, 9]);
    let runs = w.pick(0, [1, 4, 9]);
    let qp = qp.reset().ok().and_then(|qp| w.alone(context, qp));
    w.dry(cq);
    let qp = qp.map(|mut qp| {
        for i in 0..10 {
            let taken = if i % n == 0 { pool.take() } else { None };
            match taken {
                Some(buf) => w.posted(qp.post_send(wr::Send::new(tagged(buf, 8, 2)))),
                None => w.posted(qp.post_send(wr::Send::inline(&[1, 2]))),
            };
        }
        qp
    });
    w.inject_lenient(Script::default().with(Fault::FlushLate { runs: runs }.always()).with(fault));
    let mut qp = qp.and_then(|qp| qp.to_error().ok());
    if let Some(qp) = &mut qp {
        for most in [most, most] {
            let mut most = most;
            w.catch(|| {
                let _ = qp.drain_within(cq, std::time::Duration::ZERO, |_| {
                    most -= 1;
                    if most == 0 {
                        planned()
                    }
                });
            });
            w.bounded(qp);
        }
        w.dry(cq);
        w.bounded(qp);
    }
    qp
}

/// weight 14; at qp cq
fn given_up_while_it_is_full_and_used_again(
    w: &World,
    context: &Context,
    qp: Qp<Rc, AnyState, AnyProfile>,
    cq: &mut Cq<EntryOf<AnyProfile>>,
) -> Option<Qp<Rc, Rts, AnyProfile>> {
    let runs = w.pick(0, [1, 4, 9]);
    let qp = qp.reset().ok().and_then(|qp| w.alone(context, qp));
    w.dry(cq);
    w.inject_lenient(Script::default().with(Fault::FlushLate { runs: runs }.always()));
    let qp = qp
        .and_then(|mut qp| {
            while w.posted(qp.post_send(wr::Send::inline(&[1, 2]))) {}
            qp.to_error().ok()
        })
        .and_then(|mut qp| {
            let _ = qp.drain_within(cq, std::time::Duration::ZERO, |found| drop(found));
            qp.reset().ok()
        });
    let mut qp = qp.and_then(|qp| w.alone(context, qp));
    w.dry(cq);
    if let Some(qp) = &mut qp {
        while w.posted(qp.post_send(wr::Send::inline(&[]))) {}
        w.bounded(qp);
    }
    qp
}

/// weight 20
fn until_it_is_full(w: &World, qp: &mut Qp<AnyConnected, AnyPostsSends, AnyProfile>, pool: &Pool) {
    let n = w.pick(0, [1, 2, 3, 100]);
    for i in 0..10 {
        let taken = if i % n == 0 { pool.take() } else { None };
        if !match taken {
            Some(buf) => w.posted(qp.post_send(wr::Send::new(tagged(buf, 8, 2)))),
            None => w.posted(qp.post_send(wr::Send::inline(&[1, 2]))),
        } {
            break;
        }
    }
    w.bounded(qp);
}

/// weight 12
fn receives_until_it_is_full(w: &World, qp: &mut Qp<T, AnyPostsRecvs, AnyProfile>, pool: &Pool) {
    let n = w.pick(0, [1, 2, 100]);
    for i in 0..10 {
        let taken = if i % n == 0 { pool.take() } else { None };
        if !match taken {
            Some(buf) => w.posted(qp.post_recv(wr::Recv::new(buf))),
            None => w.posted(qp.post_recv(wr::Recv::empty())),
        } {
            break;
        }
    }
    w.bounded(qp);
}

/// weight 14
fn reset_and_connected_to_itself(
    w: &World,
    context: &Context,
    qp: Qp<AnyTransport, AnyState, AnyProfile>,
) -> Option<Qp<AnyTransport, Rts, AnyProfile>> {
    qp.reset().ok().and_then(|qp| w.alone(context, qp))
}

/// weight 14
fn reset_again_and_again(
    w: &World,
    context: &Context,
    qp: Qp<AnyConnected, Rts, AnyProfile>,
) -> Option<Qp<AnyConnected, Rts, AnyProfile>> {
    let n = w.pick(0, [2, 5, 9]);
    let mut qp = Some(qp);
    for _ in 0..w.rounds(n) {
        qp = qp.and_then(|mut qp| {
            for i in 0..9 {
                w.posted(qp.post_recv(wr::Recv::empty()));
                w.posted(qp.post_send(wr::Send::inline(&[])));
            }
            w.bounded(&mut qp);
            qp.reset().ok().and_then(|qp| w.alone(context, qp))
        });
    }
    qp
}

/// weight 10; at qp cq; settles cq; alone
fn reset_and_destroyed_while_completions_wait(
    w: &World,
    qp: Qp<AnyConnected, Rts, AnyProfile>,
    cq: &mut Cq<EntryOf<AnyProfile>>,
) {
    let destroys = w.pick(0, [true, false]);
    let flushes = w.pick(0, [true, false]);
    let mut qp = qp;
    while w.posted(qp.post_send(wr::Send::inline(&[]))) {}
    while w.posted(qp.post_recv(wr::Recv::empty())) {}
    let rest =
        if flushes { qp.to_error().ok().and_then(|qp| qp.reset().ok()) } else { qp.reset().ok() };
    if let Some(qp) = rest {
        if destroys {
            let _ = qp.destroy();
        } else {
            drop(qp);
        }
    }
    w.has_room(cq);
}

/// weight 6; kin context pd; alone
fn gone_while_completions_wait_in_one_of_two_queues(w: &World, context: &Context, pd: &Pd) {
    let flushes = w.pick(0, [true, false]);
    let n = w.pick(0, [1, 3, 9]);
    let second = w.pick(0, [true, false]);
    if let (Ok(mut one), Ok(mut two)) =
        (context.create_cq::<EntryOf<AnyProfile>>(40), context.create_cq::<EntryOf<AnyProfile>>(40))
    {
        if let Some(mut qp) = w
            .made(pd.create_qp::<AnyConnected, AnyProfile>(&one, &two, DEPTH))
            .and_then(|qp| w.alone(context, qp))
        {
            for _ in 0..n {
                w.posted(qp.post_recv(wr::Recv::empty()));
                w.posted(qp.post_send(wr::Send::inline(&[])));
            }
            if flushes {
                drop(qp.to_error());
            } else {
                drop(qp);
            }
        }
        if second {
            w.has_room(&mut two);
            w.has_room(&mut one);
        } else {
            w.has_room(&mut one);
            w.has_room(&mut two);
        }
    }
}

/// weight 14; at qp cq
fn rested(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyRests, AnyProfile>,
    cq: &mut Cq<EntryOf<AnyProfile>>,
) {
    if w.posted(qp.post_send(wr::Send::inline(&[1]))) {
        w.rested(qp, cq);
    }
}

/// weight 4; at qp cq
fn booked(w: &World, qp: &Qp<T, S, AnyProfile>, cq: &Cq<EntryOf<AnyProfile>>) {
    w.booked(qp, cq);
}

/// weight 14; at two cq
fn what_is_sent_arrives(
    w: &World,
    one: &mut Qp<AnyConnected, Rts, AnyProfile>,
    two: &mut Qp<AnyConnected, Rts, AnyProfile>,
    cq: &mut Cq<EntryOf<AnyProfile>>,
) {
    w.dry(cq);
    let all = w.expects(one, two, None);
    for i in 0..all {
        w.posted(one.post_send(wr::SendWithImm::inline(&[], i)));
    }
    if all != 0 {
        w.arrived(two.qp_num(), cq, all);
    }
}

/// weight 30; at two cq
fn what_is_sent_arrives_at_a_shared_receive_queue(
    w: &World,
    one: &mut Qp<Rc, Rts, AnyShared>,
    two: &mut Qp<Rc, Rts, AnyShared>,
    srq: &Srq<Rc>,
    cq: &mut Cq<EntryOf<AnyShared>>,
) {
    w.dry(cq);
    let all = w.expects(one, two, Some((srq.id(), cq.id(), srq.recvs_outstanding())));
    for i in 0..all {
        w.posted(one.post_send(wr::SendWithImm::inline(&[], i)));
    }
    if all != 0 {
        w.arrived(two.qp_num(), cq, all);
    }
}

/// weight 20; at other cq
fn given_up_and_drained_beside_a_neighbour_that_posts_meanwhile(
    w: &World,
    qp: Qp<AnyConnected, Rts, AnyProfile>,
    cq: &mut Cq<EntryOf<AnyProfile>>,
    other: &mut Qp<AnyAlsoConnected, Rts, AnyProfile>,
) -> Option<Qp<AnyConnected, Err, AnyProfile>> {
    let micros = w.pick(0, [0, 100, 3000]);
    let runs = w.pick(0, [1, 9, u32::MAX]);
    let mut qp = qp;
    w.posted(qp.post_recv(wr::Recv::empty()));
    w.inject_lenient(Script::default().with(Fault::FlushLate { runs: runs }.nth(0)));
    let most = std::time::Duration::from_micros(micros);
    qp.to_error().ok().map(|mut qp| {
        for _ in 0..3 {
            w.posted(other.post_send(wr::Send::inline(&[])));
        }
        let _ = w.within(most, || {
            qp.drain_within(cq, most, |found| {
                drop(found);
                w.posted(other.post_send(wr::Send::inline(&[])));
            })
        });
        qp
    })
}

/// weight 8; forgets
fn forget(w: &World, one: Completion<'_, E>) {
    w.forgets();
    std::mem::forget(one);
}

/// weight 3
fn completion_queue_capacity(w: &World, cq: &Cq<E>) {
    if cq.unbooked() > cq.capacity() {
        w.complain("more room than there is")
    }
    let _ = cq.id();
}

/// weight 2
fn reclaim_handles(w: &World, cq: &mut Cq<E>) {
    let _ = cq.reclaim_handles();
}

/// weight 5
fn completion_queue_destroy(w: &World, cq: Cq<E>) -> Option<Cq<E>> {
    w.destroy_cq(cq)
}

/// weight 3
fn is_empty(w: &World, all: &Completions<'_, E>) {
    if all.is_empty() != (all.len() == 0) {
        w.complain("completions have the wrong length")
    }
}

/// weight 40
fn its_next<'a>(w: &World, all: &mut Completions<'a, E>) -> Option<Completion<'a, E>> {
    all.next()
}

/// weight 10
fn take_and_collect<'a>(w: &World, all: Completions<'a, E>) -> Option<Vec<Completion<'a, E>>> {
    let n = w.pick(0, [0, 1, 2, 9]);
    Some(all.take(n).collect::<Vec<_>>())
}

/// weight 8
fn by_ref_take_and_collect<'a>(
    w: &World,
    all: &mut Completions<'a, E>,
) -> Option<Vec<Completion<'a, E>>> {
    let n = w.pick(0, [0, 1, 2, 9]);
    Some(all.by_ref().take(n).collect::<Vec<_>>())
}

/// weight 4
fn skip<'a>(w: &World, all: Completions<'a, E>) -> Option<Completion<'a, E>> {
    let n = w.pick(0, [0, 1, 2]);
    all.skip(n).next()
}

/// weight 12
fn for_each(w: &World, all: Completions<'_, E>) -> Option<Vec<E>> {
    let mut entries = Vec::new();
    all.for_each(|completion| entries.extend(completion.into_entry()));
    Some(entries)
}

/// weight 5
fn for_each_completions_kept_and_a_panic<'a>(
    w: &World,
    all: Completions<'a, E>,
) -> Option<Vec<Completion<'a, E>>> {
    let n = w.pick(0, [1, 2, 3]);
    let mut kept = Vec::new();
    w.catch(|| {
        all.for_each(|completion| {
            kept.push(completion);
            if kept.len() == n {
                planned()
            }
        })
    });
    Some(kept)
}

/// weight 10
fn loop_with_a_break(w: &World, all: Completions<'_, E>) -> Option<E> {
    let mut last = None;
    for completion in all {
        last = completion.into_entry();
        if last.is_some() {
            break;
        }
    }
    last
}

/// weight 6
fn both_in_one_function(w: &World, all: Completions<'_, E>, one: Completion<'_, E>) -> Option<E> {
    end_first(all, one)
}

/// weight 10
fn status(w: &World, one: &Completion<'_, E>) {
    let _ = (
        one.status(),
        one.qp_num(),
        one.opcode(),
        one.imm_data().map(|imm| imm == 7),
        one.byte_len(),
        one.is_selective(),
    );
    if one.direction() == Direction::Send && one.imm_data().is_some() {
        w.complain("a send returned an immediate")
    }
    if ![0, 1, 9].contains(&one.id()) {
        w.complain("no work request had this number")
    }
}

/// weight 15
fn into_entry(w: &World, one: Completion<'_, E>) -> Option<E> {
    one.into_entry()
}

/// weight 25
fn outcome(w: &World, one: Completion<'_, E>) -> Option<E> {
    w.outcome(one)
}

/// weight 8
fn outcome_selective<'a>(w: &World, one: Completion<'a, E>) -> Option<Completion<'a, E>> {
    match one.outcome() {
        Outcome::Selective(one) => Some(one),
        _ => None,
    }
}

/// weight 14
fn complete<'a>(
    w: &World,
    qp: &'a mut Qp<T, S, AnySelective>,
    one: Completion<'_, EntryOf<AnySelective>>,
) -> Option<Released<'a, EntryOf<AnySelective>>> {
    qp.complete(one).ok().map(|done| {
        let _ = done.status;
        done.released
    })
}

/// weight 5
fn complete_of_another<'a>(
    w: &World,
    qp: &mut Qp<T, S, AnySelective>,
    one: Completion<'a, EntryOf<AnySelective>>,
) -> Option<Completion<'a, EntryOf<AnySelective>>> {
    qp.complete(one).err()
}

/// weight 8
fn detach(w: &World, one: Completion<'_, EntryOf<AnySelective>>) -> Option<DetachedCompletion> {
    one.detach().ok()
}

/// weight 14
fn redeem<'a>(
    w: &World,
    qp: &'a mut Qp<T, S, AnySelective>,
    one: DetachedCompletion,
) -> Option<Released<'a, EntryOf<AnySelective>>> {
    qp.redeem(one).ok().map(|done| {
        let _ = done.status;
        done.released
    })
}

/// weight 5
fn redeem_at_another(
    w: &World,
    qp: &mut Qp<T, S, AnySelective>,
    one: DetachedCompletion,
) -> Option<DetachedCompletion> {
    qp.redeem(one).err()
}

/// weight 8
fn released_iterator(w: &World, released: &mut Released<'_, E>) -> Option<E> {
    if ![0, 1, 9].contains(&released.id()) {
        w.complain("no work request had this number")
    }
    released.next()
}

/// weight 4
fn append_released(w: &World, released: Released<'_, E>, all: &mut Vec<E>) {
    released.append_to(all);
}

/// weight 8
fn rejected_iterator(w: &World, rejected: &mut Rejected<E>) -> Option<E> {
    rejected.next()
}

/// weight 20
fn pop<'a>(w: &World, all: &mut Vec<X<'a>>) -> Option<X<'a>> {
    all.pop()
}

/// weight 5
fn truncate(w: &World, all: &mut Vec<X<'_>>) {
    let n = w.pick(0, [1, 2]);
    all.reverse();
    all.truncate(n);
}
