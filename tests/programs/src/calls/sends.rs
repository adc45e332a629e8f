//! Posting sends.

use super::*;

/// weight 20
fn queue_pair_post_send(w: &World, qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>, buf: Buf) {
    w.posted(qp.post_send(wr::Send::new(buf)));
}

/// weight 25
fn post_send_several(w: &World, qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>, pool: &Pool) {
    let len = w.pick(0, [0, 3, 30]);
    let n = w.pick(0, [1, 2, 4, 9]);
    let tag = w.pick(0, [1, 77, 250]);
    for i in 0..n {
        if let Some(buf) = pool.take() {
            w.posted(qp.post_send(wr::Send::new(tagged(buf, len + i, tag))));
        }
    }
}

/// weight 5
fn post_send_kept(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>,
    buf: Buf,
) -> Option<Rejected<EntryOf<AnyQuiet>>> {
    w.kept(qp.post_send(wr::Send::new(buf).solicited()))
}

/// weight 8
fn inline(w: &World, qp: &mut Qp<AnyConnected, AnyPostsSends, P>) {
    let byte = w.pick(0, [1, 9]);
    w.posted(qp.post_send(wr::Send::inline(&[byte])));
    w.posted(qp.post_send(wr::Send::inline_slice(&[byte, byte + 1])));
    w.posted(qp.post_send(wr::SendWithImm::inline(&[byte], 7).solicited()));
    w.posted(qp.post_send(wr::SendWithImm::inline_slice(&[], 8).with_id(u16::from(byte))));
}

/// weight 8
fn send_inline_list(w: &World, qp: &mut Qp<AnyConnected, AnyPostsSends, AnySeveral>) {
    let byte = w.pick(0, [1, 9]);
    let len = w.pick(0, [0, 3, 30]);
    let body: [u8; 72] = std::array::from_fn(|at| byte + at as u8);
    w.posted(qp.post_send(wr::Send::inline_list([&body[..2], &body[2..2 + len]])));
    w.posted(
        qp.post_send(
            wr::SendWithImm::inline_list([&body[..40], &body[40..40 + len]], 9)
                .with_id(u16::from(byte)),
        ),
    );
}

/// weight 6
fn send_with_imm_new(w: &World, qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>, buf: Buf) {
    let imm = w.pick(0, [0, 7, u32::MAX]);
    w.posted(qp.post_send(wr::SendWithImm::new(buf, imm)));
}

/// weight 8
fn post_send_of_a_shared_buffer(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyMixed>,
    shared: SharedBuf,
) {
    w.posted(qp.post_send(wr::Send::new(shared)));
}

/// weight 5
fn post_send_of_a_list(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnySeveral>,
    list: BufList,
) {
    w.posted(qp.post_send(wr::Send::new(list)));
}

/// weight 2
fn post_send_of_an_open_piece(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyMixed>,
    piece: OpenBuf,
) {
    w.posted(qp.post_send(wr::Send::new(piece)));
}

/// weight 5
fn post_send_of_a_header_and_a_piece(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyMixed>,
    header: Buf,
    piece: OpenBuf,
) {
    w.posted(qp.post_send(wr::Send::new((header, piece))));
}

/// weight 5
fn post_send_of_mixed_handles(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyMixed>,
    shared: SharedBuf,
    piece: OpenBuf,
    buf: Buf,
) {
    let mut list = AnyList::from(piece);
    list.push_back(shared);
    list.push_front(buf);
    assert_eq!(list.iter().count(), list.len());
    w.posted(qp.post_send(wr::Send::new(list)));
}

/// weight 4
fn post_send_with_context(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyMixed>,
    piece: OpenBuf,
    one: Buf,
    two: Buf,
) {
    w.posted(qp.post_send(wr::Send::new(piece).with_context(one)));
    w.posted(qp.post_send(wr::Send::inline(b"inline").with_context(two)));
}

/// weight 10
fn post_send_unsignaled(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnySelective>,
    buf: Buf,
) {
    w.lenient();
    w.posted(qp.post_send_unsignaled(wr::Send::new(buf)));
}

/// weight 8
fn settle(w: &World, qp: &mut Qp<AnyConnected, AnyPostsSends, AnySelective>) {
    w.lenient();
    w.posted(qp.settle());
}

/// weight 10
fn post_prepared(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>,
    one: Buf,
    two: Buf,
) {
    let mut ready = wr::SendWithImm::new(wr::Placeholder, 1).prepare();
    w.posted(qp.post_prepared(&mut ready, one));
    ready.refill(wr::SendWithImm::new(wr::Placeholder, 2));
    w.posted(qp.post_prepared(&mut ready, two));
}

/// weight 5
fn post_prepared_unsignaled(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnySelective>,
    buf: Buf,
) {
    let mut ready = wr::Send::new(wr::Placeholder).prepare();
    w.lenient();
    w.posted(qp.post_prepared_unsignaled(&mut ready, buf));
}

/// weight 5
fn post_prepared_inline(w: &World, qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>) {
    let n = w.pick(0, [1, 3]);
    let mut ready = wr::Send::inline(b"qrstu").prepare();
    for i in 0..n {
        let bytes = [i, i + 1, i + 2, i + 3, i + 4];
        *ready.bytes_mut() = bytes;
        w.posted(qp.post_prepared_inline(&mut ready));
        if *ready.bytes() != bytes {
            w.complain("a prepared send has the wrong bytes")
        }
    }
}

/// weight 6
fn post_send_macro(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnySelective>,
    one: Buf,
    two: Buf,
) -> Option<Rejected<EntryOf<AnySelective>>> {
    w.lenient();
    w.kept(post_send!(
        qp,
        [wr::Send::new(one).signaled(), wr::Send::inline(&[1, 2]), wr::Send::new(two)]
    ))
}

/// weight 6
fn post_send_all_signaled(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>,
    one: Buf,
    two: Buf,
) {
    w.posted(post_send!(qp, [wr::Send::new(one), wr::SendWithImm::new(two, 5)]));
}

/// weight 2
fn send_slots_new(w: &World) -> Option<SendSlots> {
    Some(SendSlots::<3>::new())
}

/// weight 8
fn send_list<'a>(
    w: &World,
    qp: &'a mut Qp<AnyConnected, AnyPostsSends, P>,
    slots: &'a mut SendSlots,
) -> Option<SendList<'a, AnyConnected, P>> {
    Some(qp.send_list(slots))
}

/// weight 4
fn lists<'a>(
    w: &World,
    qp: &'a mut Qp<AnyConnected, AnyPostsBoth, AnyProfile>,
    sends: &'a mut SendSlots,
    receives: &'a mut RecvSlots,
) -> (Option<SendList<'a, AnyConnected, AnyProfile>>, Option<RecvList<'a, AnyConnected, AnyProfile>>)
{
    {
        let (sends, receives) = qp.lists(sends, receives);
        (Some(sends), Some(receives))
    }
}

/// weight 12
fn send_list_push(w: &World, list: &mut SendList<'_, T, AnyQuiet>, buf: Buf) {
    let before = list.len();
    let pushed = list.push(wr::Send::new(buf)).is_ok();
    if list.len() != before + pushed as usize || list.is_empty() != (list.len() == 0) {
        w.complain("a list has the wrong length")
    }
}

/// weight 6
fn send_list_extend(w: &World, list: &mut SendList<'_, T, AnyQuiet>, pool: &Pool) {
    let n = w.pick(0, [0, 2, 3, 5]);
    let _ =
        list.extend((0..n).map_while(|_| pool.take()).map(|buf| wr::Send::new(tagged(buf, 9, 3))));
}

/// weight 3; panics
fn extend_of_sends_with_a_panic(w: &World, list: &mut SendList<'_, T, AnyQuiet>, pool: &Pool) {
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
            .map(|buf| wr::Send::new(tagged(buf, 4, 9))),
    );
}

/// weight 4; panics
fn extend_of_sends_whose_iterator_panics_as_it_goes(
    w: &World,
    list: &mut SendList<'_, T, AnyQuiet>,
    pool: &Pool,
) {
    let n = w.pick(0, [0, 2, 5]);
    let _ = list.extend(
        EndsLoudly((0..n).map_while(|_| pool.take())).map(|buf| wr::Send::new(tagged(buf, 3, 5))),
    );
}

/// weight 10; kin pd cq; settles cq
fn lists_are_forgotten_and_their_queue_pair_goes(
    w: &World,
    context: &Context,
    pd: &Pd,
    cq: &mut Cq<EntryOf<AnyMarked>>,
) {
    let amid = w.pick(0, [true, false]);
    let first = w.pick(0, [true, false]);
    let lists = w.pick(0, [1, 2, 3]);
    let m = w.pick(0, [0, 1]);
    let n = w.pick(0, [0, 1, 2]);
    let second = w.pick(0, [true, false]);
    let third = w.pick(0, [true, false]);
    if let (Some(pool), Ok(qp)) = (w.pool(pd, 64), pd.create_qp::<Rc, AnyMarked>(cq, cq, DEPTH)) {
        if let Some(mut qp) = w.alone(context, qp) {
            let sends = || pool.take().map(|buf| wr::Send::new(tagged(buf, 8, 2)));
            let receives = || pool.take().map(wr::Recv::new);
            let (mut sent, mut received) = (SendSlots::<3>::new(), RecvSlots::<3>::new());
            for &forgets in &[first, second, third][..lists] {
                {
                    let mut list = qp.send_list(&mut sent);
                    let _ = list.extend((0..n).map_while(|_| sends()));
                    if forgets {
                        std::mem::forget(list);
                    } else {
                        w.catch(|| {
                            let _ = list.extend(EndsLoudly((0..m).map_while(|_| {
                                if amid {
                                    planned()
                                }
                                sends()
                            })));
                        });
                    }
                }
                {
                    let mut list = qp.recv_list(&mut received);
                    let _ = list.extend((0..n).map_while(|_| receives()));
                    if forgets {
                        std::mem::forget(list);
                    } else {
                        w.catch(|| {
                            let _ = list.extend(EndsLoudly((0..m).map_while(|_| {
                                if amid {
                                    planned()
                                }
                                receives()
                            })));
                        });
                    }
                }
            }
            drop(qp);
        }
    }
    w.dry(cq);
}

/// weight 12
fn send_list_post(w: &World, list: SendList<'_, T, P>) {
    w.posted(list.post());
}

/// weight 5
fn post_unsignaled(w: &World, list: SendList<'_, T, AnySelective>) {
    w.lenient();
    w.posted(list.post_unsignaled());
}
