//! Messages too long for the port are rejected before they are posted, however they are posted
//! (R3.5, R3.6, R2.8).

use proverbs::completion::GRH_LEN;
use proverbs::memory::Owned;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

/// Checks that a post is rejected for its length, with both numbers in the message, and returns the
/// `n` entries. The next send arrives.
#[track_caller]
fn too_long<E: Owned>(refused: Result<(), PostError<E>>, kind: PostErrorKind, n: usize) -> Vec<E> {
    let error = refused.expect_err("a message too long");
    assert_eq!((error.kind(), error.accepted()), (kind, 0));
    let back: Vec<E> = error.into_rejected().collect();
    assert_eq!(back.len(), n);
    back
}

fn of_len<C>(mut buf: Buf<C>, len: usize) -> Buf<C> {
    buf.set_len(len);
    buf
}

/// Proves R3.6.
#[test]
fn a_datagram_beyond_the_mtu() {
    fails_on!(Iwarp, "R24.2");
    let dev = Device::open();
    let mtu = dev.mtu();
    let wish = Wish { size: mtu + GRH_LEN + 8, buffers: 6, ..Wish::new() };
    let mut p = Pair::<Ud>::with(&wish);
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let kind = PostErrorKind::ExceedsMtu { asked: mtu as u64 + 1, max: mtu as u32 };
    // Buffers may be larger than a message, before and after they were received into or returned.
    let mut buf = p.pool.take().unwrap();
    for round in 0..3 {
        buf =
            too_long(p.a.post_send(wr::Send::new(of_len(buf, mtu + 1)).to(to)), kind, 1).remove(0);
        let message = numbered(round, mtu);
        buf.copy_from(&message).unwrap();
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(buf).to(to)).unwrap();
        let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
        let got = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
        assert_eq!(got.payload(), message);
        p.a.post_recv(wr::Recv::new(sent.entry.unwrap())).unwrap();
        let back = p.b.way_to(&p.dev, &p.pd, p.a.qp_num());
        p.b.post_send(wr::Send::new(of_len(got.entry.unwrap(), 8)).to(back)).unwrap();
        buf = poll(&p.dev, &mut p.ca, 1).remove(0).datagram().entry.unwrap();
        poll(&p.dev, &mut p.cb, 1);
    }
    let text = too_long_text(&mut p, to, mtu + 1);
    let expected = format!(
        "ibv_post_send: work request 0: a UD message of {} bytes exceeds the active MTU of {mtu} \
         (send it in parts, or on RC)",
        mtu + 1
    );
    assert_eq!(text, expected);
}

fn too_long_text(p: &mut Pair<Ud>, to: wr::Destination, len: usize) -> String {
    let buf = of_len(p.pool.take().unwrap(), len);
    p.a.post_send(wr::Send::new(buf).to(to)).unwrap_err().to_string()
}

/// Proves R3.6.
#[test]
fn a_chain_with_a_datagram_beyond_the_mtu() {
    fails_on!(Iwarp, "R24.2");
    let mtu = Device::open().mtu();
    let mut p = Pair::<Ud>::with(&Wish { size: mtu + 8, buffers: 8, ..Wish::new() });
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let kind = PostErrorKind::ExceedsMtu { asked: mtu as u64 + 8, max: mtu as u32 };
    let [short, long] = [8, mtu + 8].map(|len| of_len(p.pool.take().unwrap(), len));
    // The chain posts nothing, and comes back in order.
    let refused =
        post_send!(p.a, [wr::Send::new(short).to(to), wr::SendWithImm::new(long, 1).to(to)]);
    let back = too_long(refused, kind, 2);
    let lens = back.into_iter().map(|buf| buf.len());
    assert_eq!(lens.collect::<Vec<_>>(), [8, mtu + 8]);

    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(wr::Send::inline(b"goes").to(to)).unwrap();
    let shared = of_len(p.pool.take().unwrap(), mtu + 8);
    let error = list.push(wr::Send::new(shared).to(to)).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (kind, 1));
    list.push(wr::Send::inline(b"on").to(to)).unwrap();
    list.post().unwrap();
    poll(&p.dev, &mut p.ca, 2).into_iter().for_each(|done| drop(done.sent()));
}

profile! { Gather { max_send_sge: 4, signaling: Selective, initiator: NoReads, entry: AnyBuf } }

/// Proves R3.6.
#[test]
fn a_gather_list_beyond_the_mtu() {
    fails_on!(Iwarp, "R24.2");
    fails_on!(NoRings);
    let mtu = Device::open().mtu();
    let mut p = Pair::<Ud, Gather>::with(&Wish { size: mtu / 2 + 8, buffers: 12, ..Wish::new() });
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let kind = PostErrorKind::ExceedsMtu { asked: mtu as u64 + 8, max: mtu as u32 };
    let half = |more| of_len(p.pool.take().unwrap(), mtu / 2 + more);
    // Repeated, so that no buffer passes because of its earlier use.
    for _ in 0..2 {
        let back = too_long(p.a.post_send(wr::Send::new([half(0), half(8)]).to(to)), kind, 1);
        let list = back.into_iter().next().and_then(AnyBuf::into_list).unwrap();
        let back = too_long(p.a.post_send(wr::Send::new(list).to(to)), kind, 1);
        let mut list = back.into_iter().next().and_then(AnyBuf::into_list).unwrap();
        let [first, second] = [list.pop_front(), list.pop_front()].map(Option::unwrap);
        p.a.post_send(wr::Send::new([of_len(first, 8), second]).to(to)).unwrap();
        assert_eq!(complete(&p.dev, &mut p.ca, &mut p.a, 1)[0].0, Ok(()));
    }
    let long = p.pd.create_pool(1, mtu + 8).unwrap();
    let shared = long.take().unwrap().freeze();
    let unsignaled = p.a.post_send_unsignaled(wr::Send::new(shared.clone()).to(to)).map(|_| ());
    too_long(unsignaled, kind, 1);
    too_long(p.a.post_send(wr::Send::new(shared).to(to)), kind, 1);
}

/// Proves R3.5.
#[test]
fn a_message_beyond_the_ports_maximum() {
    fails_on!(Iwarp, "R24.4", Device::open().kind != Kind::Siw);
    let dev = Device::open();
    let max = dev.ctx.query_port(1).unwrap().max_msg_sz;
    if max > 64 << 20 {
        println!("skipped: messages of this port have {max} bytes, which is too much to register");
        return;
    }
    let wish = Wish { size: max as usize + 8, buffers: 3, ..Wish::new() };
    let mut p = Pair::<Rc>::with(&wish);
    let region = p.pd.register::<RemoteAll>(64).unwrap();
    let remote = region.remote();
    let kind = PostErrorKind::ExceedsMessage { asked: max as u64 + 1, max };
    let mut buf = of_len(p.pool.take().unwrap(), max as usize + 1);
    buf = too_long(p.a.post_send(wr::Send::new(buf)), kind, 1).remove(0);
    let (to, from) = (remote.write().start(), remote.read().start());
    buf = too_long(p.a.post_send(wr::RdmaWrite::new(buf, to)), kind, 1).remove(0);
    buf = too_long(p.a.post_send(wr::RdmaRead::new(buf, from)), kind, 1).remove(0);
    let long = RemoteSlice::<RemoteRead>::from_parts(0, max as u64 + 1, 0).read();
    buf = too_long(p.a.post_send(wr::RdmaRead::new(buf, long)), kind, 1).remove(0);
    // An atomic uses 8 bytes of any buffer, and a receive all of it.
    p.a.post_send(wr::FetchAndAdd::new(buf, remote.atomic(0).unwrap(), 1)).unwrap();
    buf = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    p.a.post_recv(wr::Recv::new(buf)).unwrap();
    p.b.post_send(wr::Send::inline(b"short")).unwrap();
    buf = poll(&p.dev, &mut p.ca, 1).remove(0).received().entry.unwrap();
    assert_eq!(buf[..], *b"short");
    poll(&p.dev, &mut p.cb, 1);
    too_long(p.a.post_send(wr::Send::new(of_len(buf, max as usize + 1))), kind, 1);
}

/// Proves R3.6.
#[test]
fn the_limit_is_queried_again_after_a_reset() {
    fails_on!(Iwarp, "R24.2");
    let mtu = Device::open().mtu();
    let wish = Wish { size: mtu + 8, buffers: 3, ..Wish::new() };
    let Pair { mut a, ca, pool, pd, dev, .. } = Pair::<Ud>::with(&wish);
    let to = a.way_to(&dev, &pd, 1);
    let kind = PostErrorKind::ExceedsMtu { asked: mtu as u64 + 1, max: mtu as u32 };
    let mut buf = of_len(pool.take().unwrap(), mtu + 1);
    buf = too_long(a.post_send(wr::Send::new(buf).to(to)), kind, 1).remove(0);
    let reset = a.reset().unwrap();
    let mut a = Ud::up(reset, &dev, 1, &wish);
    too_long(a.post_send(wr::Send::new(buf).to(to)), kind, 1);
    drop(ca);
}

/// A receive's completion reports the message's length, whatever the buffer's size. A send's
/// completion has none, and neither has a failure (R10.5).
#[test]
fn a_completion_has_the_length_of_its_message() {
    let mut p = Pair::<Rc>::new();
    for len in [1, 5, 64] {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(of_len(p.pool.take().unwrap(), len))).unwrap();
        let mut told = Vec::new();
        until(&p.dev, "both completions", || {
            told.extend(p.cb.poll().unwrap().map(|it| (it.byte_len(), it.into_entry().is_some())));
            told.extend(p.ca.poll().unwrap().map(|it| (it.byte_len(), it.into_entry().is_some())));
            told.len() == 2
        });
        told.sort_unstable();
        assert_eq!(told, [(None, true), (Some(len as u32), true)]);
    }
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let _b = p.b.to_error().unwrap();
    let mut flushed = None;
    until(&p.dev, "the flushed receive", || {
        flushed = p.cb.poll_one().unwrap().map(|it| (it.status().is_err(), it.byte_len()));
        flushed.is_some()
    });
    assert_eq!(flushed, Some((true, None)));
}
