//! Objects that end during other calls.

use super::*;

/// weight 8
fn drain_and_a_queue_pair_that_ends_amid(
    w: &World,
    qp: &mut Qp<T, Err, P>,
    cq: &mut Cq<EntryOf<P>>,
    other: Qp<U, V, Q>,
) {
    let mut other = Some(other);
    let _ = qp.drain_within(cq, w.patience(), |_| drop(other.take()));
}

/// weight 8
fn for_each_and_a_queue_pair_that_ends_amid(
    w: &World,
    all: Completions<'_, E>,
    other: Qp<U, V, Q>,
) -> Option<Vec<E>> {
    let (mut other, mut home) = (Some(other), Vec::new());
    all.for_each(|one| {
        home.extend(one.into_entry());
        drop(other.take());
    });
    Some(home)
}

/// weight 10
fn for_each_and_posts_amid(
    w: &World,
    all: Completions<'_, EntryOf<AnyBufs>>,
    qp: &mut Qp<T, AnyPostsRecvs, AnyBufs>,
) {
    all.for_each(|one| {
        if let Some(entry) = one.into_entry() {
            w.posted(qp.post_recv(wr::Recv::new(entry)));
        }
    });
}

/// weight 5; panics
fn post_send_with_a_panic(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>,
    one: Buf,
    two: Buf,
) {
    let panics = w.pick(0, [true, true, false]);
    let _ = post_send!(
        qp,
        [wr::Send::new(one), {
            if panics {
                planned()
            }
            wr::Send::new(two)
        }]
    )
    .map_err(drop);
}

/// weight 5; panics
fn post_recv_with_a_panic(
    w: &World,
    qp: &mut Qp<T, AnyPostsRecvs, AnyProfile>,
    one: Buf,
    two: Buf,
) {
    let panics = w.pick(0, [true, true, false]);
    let _ = post_recv!(
        qp,
        [wr::Recv::new(one), {
            if panics {
                planned()
            }
            wr::Recv::new(two)
        }]
    )
    .map_err(drop);
}

/// weight 4
fn macros_that_are_left_early(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>,
    one: Buf,
    two: Buf,
    three: Buf,
) {
    let n = w.pick(0, [0, 1]);
    for i in 0..1 {
        let _ = post_send!(
            qp,
            [
                wr::Send::new(one),
                {
                    if i == n {
                        break;
                    }
                    wr::Send::new(two)
                },
                wr::Send::new(three)
            ]
        )
        .map_err(drop);
        break;
    }
}

/// weight 6; at qp cq; alone
fn completion_channel_wait(
    w: &World,
    channel: &mut Channel,
    cq: &mut Cq<EntryOf<AnyProfile>>,
    qp: &mut Qp<Uc, Rts, AnyProfile>,
) {
    if w.comes(qp, cq) && w.posted(qp.post_send(wr::Send::inline(&[1]))) {
        let _ = channel.wait(cq).map(|all| all.for_each(drop));
    }
}

/// weight 3; alone
fn device_events_wait(w: &World, context: &Context, events: &mut Events) {
    let event = w.pick(0, [18, 9]);
    if ALIKE && w.fabric.raise(context, event) {
        let _ = events.wait();
    }
}

/// weight 3
fn receiving_recv_list(w: &World, connector: &mut Connector<AnyProfile>, pool: &Pool) {
    let n = w.pick(0, [0, 2, 3]);
    let posts = w.pick(0, [true, true, false]);
    let mut qp = connector.qp();
    let mut slots = RecvSlots::<2>::new();
    let mut list = qp.recv_list(&mut slots);
    for _ in 0..n {
        if let Some(buf) = pool.take() {
            let _ = list.push(wr::Recv::new(buf));
        }
    }
    if posts {
        w.posted(list.post());
    }
}
