//! Inline data is copied during the post, so its source may change afterwards.

use proverbs::completion::WcOpcode;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }

#[test]
fn constants_and_slices_up_to_the_limit() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let there = region.remote().write();
    for _ in 0..4 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let full: [u8; 64] = numbered(1, 64).try_into().unwrap();
    p.a.post_send(wr::Send::inline(&full)).unwrap();
    p.a.post_send(wr::Send::inline_slice(&full)).unwrap();
    p.a.post_send(wr::SendWithImm::inline(b"const", 5)).unwrap();
    p.a.post_send(wr::SendWithImm::inline_slice(&full[..5], 6)).unwrap();
    let got = poll(&p.dev, &mut p.cb, 4).into_iter().map(Done::received);
    let got: Vec<_> = got.map(|g| (g.imm_data, g.data().to_vec())).collect();
    assert_eq!(got[0], (None, full.to_vec()));
    assert_eq!(got[1], (None, full.to_vec()));
    assert_eq!(got[2], (Some(5), b"const".to_vec()));
    assert_eq!(got[3], (Some(6), full[..5].to_vec()));
    assert!(poll(&p.dev, &mut p.ca, 4).into_iter().all(|s| s.sent().entry.is_none()));

    p.a.post_send(wr::RdmaWrite::inline(&full, there)).unwrap();
    p.a.post_send(wr::RdmaWrite::inline_slice(b"slice", there)).unwrap();
    poll(&p.dev, &mut p.ca, 2);
    let mut bytes = [0; 64];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!((&bytes[..5], &bytes[5..]), (&b"slice"[..], &full[5..]));

    p.b.post_recv(wr::Recv::empty()).unwrap();
    p.b.post_recv(wr::Recv::empty()).unwrap();
    p.a.post_send(wr::RdmaWriteWithImm::inline(b"one", there, 1)).unwrap();
    p.a.post_send(wr::RdmaWriteWithImm::inline_slice(b"two!", there, 2)).unwrap();
    let got = poll(&p.dev, &mut p.cb, 2).into_iter().map(Done::received);
    let got: Vec<_> = got.map(|g| (g.imm_data, g.byte_len, g.opcode)).collect();
    let opcode = WcOpcode::RecvRdmaWithImm;
    assert_eq!(got, [(Some(1), 3, opcode), (Some(2), 4, opcode)]);
    region.read_at(0, &mut bytes[..5]).unwrap();
    assert_eq!(&bytes[..5], b"two!e");
    poll(&p.dev, &mut p.ca, 2);
}

/// Proves R2.9.
#[test]
fn the_source_is_free_when_the_post_returns() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Uc>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let mut bytes = *b"before";
    p.a.post_send(wr::Send::inline(&bytes)).unwrap();
    bytes.fill(b'!');
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"before");
    assert_eq!(&bytes, b"!!!!!!");
    poll(&p.dev, &mut p.ca, 1);
}

/// Proves R2.7, R2.8.
#[test]
fn too_long_at_run_time_posts_nothing_of_the_list() {
    let mut p = Pair::<Rc>::new();
    let long = vec![0; 65];
    let error = p.a.post_send(wr::Send::inline_slice(&long)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::InlineTooLong { asked: 65, max: 64 });
    // A longer message beside it is not inline.
    let sent = wr::Send::new(filled(&p.pool, &numbered(1, 100)));
    let error = post_send!(p.a, [sent, wr::Send::inline_slice(&long)]).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::InlineTooLong { asked: 65, max: 64 });
    assert_eq!(error.accepted(), 0);
    assert_eq!(
        error.to_string(),
        "ibv_post_send: work request 0: an inline payload of 65 bytes exceeds the queue pair's \
         max_inline of 64 (ask for more in the profile, or send from a buffer)"
    );
    let buf = filled(&p.pool, b"comes back");
    let error = post_send!(p.a, [wr::Send::new(buf), wr::Send::inline_slice(&long)]).unwrap_err();
    assert_eq!(error.accepted(), 0);
    let back: Vec<_> = error.into_rejected().collect();
    assert_eq!((back.len(), &back[0][..]), (1, &b"comes back"[..]));
    assert_eq!((p.a.sends_outstanding(), p.a.send_room()), (0, 8));
    assert_eq!(poll_empty(&mut p.ca), 0);
}

profile! { Wide { max_inline: 256 } }

/// Proves R2.7, R2.11.
#[test]
fn a_wider_profile_carries_more() {
    fails_on!(IwarpOtherwise, "R2.7");
    let mut p = Pair::<Rc, Wide>::new();
    assert_eq!((p.a.max_inline(), Pair::<Rc>::new().a.max_inline()), (256, 64));
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let bytes: [u8; 256] = numbered(9, 256).try_into().unwrap();
    p.a.post_send(wr::Send::inline(&bytes)).unwrap();
    holds(poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap(), &bytes);
    let error = p.a.post_send(wr::Send::inline_slice(&[0; 257])).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::InlineTooLong { asked: 257, max: 256 });
    poll(&p.dev, &mut p.ca, 1);
}

profile! { Bare { max_send_sge: 0 } }

/// A queue pair without buffers sends empty messages.
#[test]
fn a_queue_pair_whose_sends_have_no_buffers() {
    let mut p = Pair::<Rc, Bare>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(wr::Empty)).unwrap();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"");
    poll(&p.dev, &mut p.ca, 1);
}

/// The numbers of the next completions, and whether each succeeded.
fn numbers(dev: &Device, cq: &mut CompletionQueue, n: usize) -> Vec<(u16, bool)> {
    let mut seen = Vec::new();
    until(dev, "the numbers", || {
        cq.poll().unwrap().for_each(|done| {
            seen.push((done.id(), done.status().is_ok()));
            assert!(done.into_entry().is_none());
        });
        seen.len() == n
    });
    seen
}

#[test]
fn a_number_returns_with_its_completion() {
    fails_on!(IwarpOtherwise, "R24.15");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let at = region.remote().write();
    for _ in 0..5 {
        p.b.post_recv(wr::Recv::empty()).unwrap();
    }
    p.a.post_send(wr::Send::new(wr::Empty).with_id(1)).unwrap();
    p.a.post_send(wr::Send::new(wr::Empty)).unwrap();
    p.a.post_send(wr::RdmaWrite::inline(b"bytes", at).with_id(u16::MAX).fence()).unwrap();
    p.a.post_send(wr::RdmaWrite::inline_slice(b"bytes", at).with_id(0x8000)).unwrap();
    post_send!(
        p.a,
        [
            wr::Send::inline(&[]).with_id(7).solicited(),
            wr::SendWithImm::inline_slice(&[], 3).with_id(8)
        ]
    )
    .unwrap();
    let mut slots = SendSlots::<2>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(wr::Send::inline_slice(&[]).with_id(9)).unwrap();
    list.push(wr::RdmaWrite::inline(&[1], at).with_id(10)).unwrap();
    list.post().unwrap();
    let good = |id| (id, true);
    let ids = [1, 0, u16::MAX, 0x8000, 7, 8, 9, 10].map(good);
    assert_eq!(numbers(&p.dev, &mut p.ca, 8), ids);
    assert_eq!((p.a.sends_outstanding(), p.a.send_room()), (0, 8));
    let got = poll(&p.dev, &mut p.cb, 4).into_iter().map(|got| got.received().imm_data);
    assert_eq!(got.collect::<Vec<_>>(), [None, None, None, Some(3)]);

    // So does the number of a failed request, and of those flushed behind it.
    let beyond = region.remote().write();
    drop(region);
    for id in [11, 12, 13] {
        p.a.post_send(wr::RdmaWrite::inline(b"late", beyond).with_id(id)).unwrap();
    }
    let ids = [11, 12, 13].map(|id| (id, false));
    assert_eq!(numbers(&p.dev, &mut p.ca, 3), ids);
    assert_eq!(p.a.sends_outstanding(), 0);

    // A rejected request has no entry to return, and its number is not lost.
    let error = p.a.post_send(wr::Send::inline_slice(&[0; 65]).with_id(14)).unwrap_err();
    assert_eq!(error.into_rejected().count(), 0);
}

#[test]
fn a_buffer_has_only_its_context() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Uc>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"12"))).unwrap();
    for cq in [&mut p.ca, &mut p.cb] {
        until(&p.dev, "a completion", || {
            let completion = cq.poll_one().unwrap();
            completion.is_some_and(|done| done.id() == 0 && done.into_entry().is_some())
        });
    }
}

#[test]
fn a_release_has_the_number_of_its_last_request() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let at = region.remote().write();
    for round in 0..5 {
        let one = wr::RdmaWrite::inline(b"1", at).with_id(round);
        let _ = p.a.post_send_unsignaled(one).unwrap();
        post_send!(
            p.a,
            [
                wr::RdmaWrite::new(filled(&p.pool, b"23"), at),
                wr::RdmaWrite::inline(b"4", at).with_id(40 + round).signaled(),
                wr::RdmaWrite::inline(b"5", at).with_id(50)
            ]
        )
        .unwrap();
        p.a.post_send(wr::RdmaWrite::new(filled(&p.pool, b"67"), at)).unwrap();
        let mut released = Vec::new();
        until(&p.dev, "three completions", || {
            for completion in p.ca.poll().unwrap() {
                assert_eq!(completion.id(), 0);
                let mut done = p.a.complete(completion).map_err(drop).unwrap().released;
                let id = done.id();
                let mut bufs = Vec::new();
                match round % 2 {
                    0 => {
                        bufs.extend(done.by_ref());
                        assert_eq!(done.id(), 0, "nothing is left");
                    }
                    _ => done.append_to(&mut bufs),
                }
                released.push((id, bufs.len()));
            }
            released.len() == 3
        });
        assert_eq!(released, [(40 + round, 1), (50, 0), (0, 1)]);
    }
}
