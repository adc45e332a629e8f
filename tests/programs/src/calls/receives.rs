//! Posting receives.

use super::*;

/// weight 15
fn queue_pair_post_recv(w: &World, qp: &mut Qp<T, AnyPostsRecvs, AnyProfile>, buf: Buf) {
    w.posted(qp.post_recv(wr::Recv::new(buf)));
}

/// weight 5
fn post_recv_kept(
    w: &World,
    qp: &mut Qp<T, AnyPostsRecvs, AnyProfile>,
    buf: Buf,
) -> Option<Rejected<EntryOf<AnyProfile>>> {
    w.kept(qp.post_recv(wr::Recv::new(buf)))
}

/// weight 25
fn post_recv_several(w: &World, qp: &mut Qp<T, AnyPostsRecvs, AnyProfile>, pool: &Pool) {
    let empty = w.pick(0, [false, false, true]);
    let n = w.pick(0, [1, 2, 4, 9]);
    for _ in 0..n {
        if let Some(buf) = pool.take() {
            w.posted(qp.post_recv(wr::Recv::new(buf)));
        }
    }
    if empty {
        w.posted(qp.post_recv(wr::Recv::empty()));
    }
}

/// weight 4
fn post_recv_of_a_list(w: &World, qp: &mut Qp<T, AnyPostsRecvs, AnySeveral>, list: BufList) {
    w.posted(qp.post_recv(wr::Recv::new(list)));
}

/// weight 4; open
fn post_recv_at_pieces(
    w: &World,
    qp: &mut Qp<T, AnyPostsRecvs, AnyMixed>,
    header: Buf,
    one: OpenBuf,
    two: OpenBuf,
    task: Buf,
) {
    if let Ok(recv) = wr::Recv::at((header, one)) {
        w.posted(qp.post_recv(recv));
    }
    if let Ok(recv) = wr::Recv::at(two) {
        w.posted(qp.post_recv(recv.with_context(task)));
    }
}

/// weight 5
fn post_recv_macro(w: &World, qp: &mut Qp<T, AnyPostsRecvs, AnyProfile>, one: Buf, two: Buf) {
    w.posted(post_recv!(qp, [wr::Recv::new(one), wr::Recv::empty(), wr::Recv::new(two)]));
}

/// weight 2
fn recv_slots_new(w: &World) -> Option<RecvSlots> {
    Some(RecvSlots::<3>::new())
}

/// weight 8
fn queue_pair_recv_list<'a>(
    w: &World,
    qp: &'a mut Qp<T, AnyPostsRecvs, AnyProfile>,
    slots: &'a mut RecvSlots,
) -> Option<RecvList<'a, T, AnyProfile>> {
    Some(qp.recv_list(slots))
}

/// weight 12
fn recv_list_push(w: &World, list: &mut RecvList<'_, T, AnyQuiet>, buf: Buf) {
    let before = list.len();
    let pushed = list.push(wr::Recv::new(buf)).is_ok();
    if list.len() != before + pushed as usize || list.is_empty() != (list.len() == 0) {
        w.complain("a list has the wrong length")
    }
}

/// weight 6
fn recv_list_extend(w: &World, list: &mut RecvList<'_, T, AnyQuiet>, pool: &Pool) {
    let n = w.pick(0, [0, 2, 3, 5]);
    let _ = list.extend((0..n).map_while(|_| pool.take()).map(wr::Recv::new));
}

/// weight 3; panics
fn extend_with_a_panic(w: &World, list: &mut RecvList<'_, T, AnyQuiet>, pool: &Pool) {
    let n = w.pick(0, [0, 1, 2]);
    let mut most = n;
    let _ = list.extend(
        (0..5)
            .map_while(|_| {
                if most == 0 {
                    planned()
                }
                most -= 1;
                pool.take()
            })
            .map(wr::Recv::new),
    );
}

/// weight 4; panics
fn extend_whose_iterator_panics_as_it_goes(
    w: &World,
    list: &mut RecvList<'_, T, AnyQuiet>,
    pool: &Pool,
) {
    let n = w.pick(0, [0, 2, 5]);
    let _ = list.extend(EndsLoudly((0..n).map_while(|_| pool.take())).map(wr::Recv::new));
}

/// weight 12
fn recv_list_post(w: &World, list: RecvList<'_, T, P>) {
    w.posted(list.post());
}

/// weight 30
fn traffic(
    w: &World,
    pool: &Pool,
    one: &mut Qp<AnyConnected, Rts, AnyProfile>,
    two: &mut Qp<AnyConnected, Rts, AnyProfile>,
) {
    let len = w.pick(0, [0, 3, 30]);
    let n = w.pick(0, [1, 2, 3]);
    let tag = w.pick(0, [1, 77, 250]);
    for i in 0..n {
        for qp in [&mut *one, &mut *two] {
            if let Some(buf) = pool.take() {
                w.posted(qp.post_recv(wr::Recv::new(buf)));
            }
        }
        for qp in [&mut *one, &mut *two] {
            if let Some(buf) = pool.take() {
                w.posted(qp.post_send(wr::Send::new(tagged(buf, len + i, tag))));
            }
        }
    }
}

/// weight 4
fn messages_of_parts_beside_slices_of_the_rest(
    w: &World,
    arena: &Arena,
    cq: &mut Cq<E>,
    one: &mut Qp<AnyConnected, Rts, AnyProfile>,
    two: &mut Qp<AnyConnected, Rts, AnyProfile>,
) {
    let at = w.pick(0, [3, 13, 8]);
    let len = w.pick(0, [2, 9, 30]);
    let n = w.pick(0, [1, 2]);
    let tag = w.pick(0, [17, 77, 250]);
    let mut heads = Vec::new();
    let mut part = |len: usize| {
        let mut head = arena.take(at + len)?;
        let part = head.split_off(at).ok();
        head.fill(tag);
        heads.push(head);
        part
    };
    let mut receives = Vec::new();
    let mut sends = Vec::new();
    for _ in 0..n {
        receives.extend([part(40), part(40)]);
        sends.extend([part(len), part(len)]);
    }
    let slices: Vec<&mut [u8]> = heads.iter_mut().map(|head| &mut head[..]).collect();
    for (i, buf) in receives.into_iter().enumerate() {
        let qp = if i % 2 == 0 { &mut *one } else { &mut *two };
        if let Some(buf) = buf {
            w.posted(qp.post_recv(wr::Recv::new(buf)));
        }
    }
    for (i, buf) in sends.into_iter().enumerate() {
        let qp = if i % 2 == 0 { &mut *one } else { &mut *two };
        if let Some(buf) = buf {
            w.posted(qp.post_send(wr::Send::new(tagged(buf, len, tag))));
        }
    }
    let _ = w.polled(cq.poll_one());
    for slice in slices {
        if slice.iter().any(|byte| *byte != tag) {
            w.complain("the device wrote outside a part")
        }
        slice.fill(1);
    }
}
