//! Inline data: copied while posting, whatever becomes of its source.

use proverbs::completion::WcOpcode;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

#[test]
fn constants_and_slices_up_to_the_limit() {
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

#[test]
fn the_source_is_free_when_the_post_returns() {
    let mut p = Pair::<Uc>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let mut bytes = *b"before";
    p.a.post_send(wr::Send::inline(&bytes)).unwrap();
    bytes.fill(b'!');
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"before");
    assert_eq!(&bytes, b"!!!!!!");
    poll(&p.dev, &mut p.ca, 1);
}

#[test]
fn too_long_at_run_time_posts_nothing_of_the_list() {
    let mut p = Pair::<Rc>::new();
    let long = vec![0; 65];
    let error = p.a.post_send(wr::Send::inline_slice(&long)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::InlineTooLong { max: 64 });
    assert_eq!(error.accepted(), 0);
    assert_eq!(
        error.to_string(),
        "ibv_post_send: work request 0: inline payload exceeds the queue pair's 64 bytes"
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

#[test]
fn a_wider_profile_carries_more() {
    let mut p = Pair::<Rc, Wide>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let bytes: [u8; 256] = numbered(9, 256).try_into().unwrap();
    p.a.post_send(wr::Send::inline(&bytes)).unwrap();
    holds(poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap(), &bytes);
    let error = p.a.post_send(wr::Send::inline_slice(&[0; 257])).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::InlineTooLong { max: 256 });
    poll(&p.dev, &mut p.ca, 1);
}

profile! { Bare { max_send_sge: 0 } }

/// A queue pair without buffers has messages of no bytes.
#[test]
fn a_queue_pair_whose_sends_have_no_buffers() {
    let mut p = Pair::<Rc, Bare>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(wr::Empty)).unwrap();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), b"");
    poll(&p.dev, &mut p.ca, 1);
}
