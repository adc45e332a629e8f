//! Inline data of several slices: one message, with either verb and either kind of signaling.

use proverbs::completion::WcOpcode;
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::windows::{WindowEntry, Windowed};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Framed { max_send_sge: 3, initiator: NoReads } }
profile! { Direct { max_send_sge: 3, initiator: NoReads, posting: ExtendedPosting } }
profile! { Ring { max_send_sge: 3, signaling: Selective, initiator: NoReads } }
profile! { DirectRing { max_send_sge: 3, signaling: Selective, initiator: NoReads, posting: ExtendedPosting } }

type Got = (Option<u32>, WcOpcode, Vec<u8>);

/// Waits for the buffers to return.
trait Home {
    /// `n` sends complete and return this many buffers in all.
    fn home(&mut self, n: usize, bufs: usize);
}

macro_rules! home {
    ($($profile:ty),*: $done:expr) => { $(
        impl<T: Bring<$profile>> Home for Pair<T, $profile> {
            fn home(&mut self, n: usize, bufs: usize) {
                let done: fn(&mut Self, usize) -> usize = $done;
                assert_eq!(done(self, n), bufs);
                assert_eq!((self.a.sends_outstanding(), self.a.send_room()), (0, 8));
            }
        }
    )* };
}

home!(Framed, Direct: |p, n| {
    poll(&p.dev, &mut p.ca, n).into_iter().filter_map(|done| done.sent().entry).count()
});
// The last request of a list completes, and covers all of it.
home!(Ring, DirectRing: |p, _| {
    let mut bufs = 0;
    while p.a.sends_outstanding() > 0 {
        for (status, released) in complete(&p.dev, &mut p.ca, &mut p.a, 1) {
            status.unwrap();
            bufs += released.len();
        }
    }
    bufs
});

/// Each opcode, alone, in a chain and in a list: slices arrive one after the other, however many of
/// them are empty.
macro_rules! arrive {
    ($transport:ty, $($profile:ty),*) => { $({
        let mut p = Pair::<$transport, $profile>::new();
        let region = p.pd.register::<RemoteWrite>(256).unwrap();
        let at = |offset| region.remote().slice(offset, 64).unwrap().write();
        let body = numbered(3, 40);
        for _ in 0..8 {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        }
        p.a.post_send(wr::Send::inline_list([b"header ", &body])).unwrap();
        p.a.post_send(wr::SendWithImm::inline_list([b"one", b"two", b"three"], 5)).unwrap();
        p.a.post_send(wr::RdmaWrite::inline_list([b"written", &body], at(0))).unwrap();
        p.a.post_send(wr::RdmaWriteWithImm::inline_list([b"and ", b"told"], at(64), 6)).unwrap();
        p.home(4, 0);

        // Temporaries live until the end of the statement.
        post_send!(
            p.a,
            [
                wr::Send::inline_list([&7u32.to_be_bytes(), &[8; 2], &body[..3]]),
                wr::RdmaWrite::new(filled(&p.pool, b"of a buffer"), at(160)),
                wr::RdmaWrite::inline_list([&[9], &body[..2]], at(128)),
                wr::SendWithImm::inline_list([b"", b"only this", b""], 7).solicited(),
            ]
        )
        .unwrap();
        p.home(4, 1);

        let mut slots = SendSlots::<3, 3>::new();
        let mut list = p.a.send_list(&mut slots);
        list.push(wr::Send::inline_list([&body[..20], &body[20..]])).unwrap();
        list.push(wr::RdmaWriteWithImm::inline_list([&body, b"!"], at(192), 8)).unwrap();
        list.push(wr::Send::inline(b"one slice")).unwrap();
        list.post().unwrap();
        p.home(3, 0);

        let got = poll(&p.dev, &mut p.cb, 8).into_iter().map(Done::received);
        let got: Vec<Got> =
            got.map(|got| (got.imm_data, got.opcode, got.data().to_vec())).collect();
        let (send, write) = (WcOpcode::Recv, WcOpcode::RecvRdmaWithImm);
        let framed = [b"header ", &body[..]].concat();
        let made = [&[0, 0, 0, 7, 8, 8], &body[..3]].concat();
        let expected: [(Option<u32>, WcOpcode, &[u8]); 8] = [
            (None, send, &framed),
            (Some(5), send, b"onetwothree"),
            (Some(6), write, b""),
            (None, send, &made),
            (Some(7), send, b"only this"),
            (None, send, &body),
            (Some(8), write, b""),
            (None, send, b"one slice"),
        ];
        assert_eq!(got, expected.map(|(imm, opcode, bytes)| (imm, opcode, bytes.to_vec())));

        let there = |offset, bytes: &[u8]| {
            let mut there = vec![0; bytes.len()];
            region.read_at(offset, &mut there).unwrap();
            assert_eq!(there, bytes);
        };
        there(0, &[b"written", &body[..]].concat());
        there(64, b"and told");
        there(128, &[&[9], &body[..2]].concat());
        there(160, b"of a buffer");
        there(192, &[&body[..], b"!"].concat());
    })* };
}

#[test]
fn slices_arrive_as_one_message() {
    fails_on!(Iwarp, "R24.4");
    fails_on!(NoRings);
    arrive!(Rc, Framed, Ring);
}

/// librxe would send none of them, so they are posted with ibv_post_send there.
/// Proves R15.11.
#[test]
fn slices_of_a_session_arrive_as_one_message() {
    fails_on!(Iwarp, "R15.1");
    fails_on!(NoRings);
    arrive!(Rc, Direct, DirectRing);
}

#[test]
fn slices_arrive_on_uc() {
    fails_on!(Iwarp, "R24.2");
    fails_on!(NoRings);
    arrive!(Uc, Framed, DirectRing);
}

#[test]
fn slices_arrive_as_one_datagram() {
    fails_on!(Iwarp, "R24.2");
    fails_on!(NoRings);
    macro_rules! arrive {
        ($($profile:ty),*) => { $({
            let mut p = Pair::<Ud, $profile>::new();
            let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
            for _ in 0..3 {
                p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            }
            p.a.post_send(wr::Send::inline_list([b"a", b"", b"datagram"]).to(to)).unwrap();
            post_send!(
                p.a,
                [
                    wr::SendWithImm::inline_list([b"number ", b"two"], 2).to(to),
                    wr::Send::inline_list([b""; 3]).to(to),
                ]
            )
            .unwrap();
            p.home(3, 0);
            let got = poll(&p.dev, &mut p.cb, 3).into_iter().map(Done::datagram);
            let got: Vec<_> = got.map(|got| (got.imm_data, got.payload().to_vec())).collect();
            let expected: [(Option<u32>, &[u8]); 3] =
                [(None, b"adatagram"), (Some(2), b"number two"), (None, b"")];
            assert_eq!(got, expected.map(|(imm, bytes)| (imm, bytes.to_vec())));
        })* };
    }
    arrive!(Framed, Ring, Direct, DirectRing);
}

/// No slices, and only empty ones, are an empty message, as one empty slice is (R3.2, R3.3).
/// Proves R3.2.
#[test]
fn empty_slices_are_an_empty_message() {
    fails_on!(Iwarp, "R15.1");
    macro_rules! arrive {
        ($($profile:ty),*) => { $({
            let mut p = Pair::<Rc, $profile>::new();
            let region = p.pd.register::<RemoteWrite>(8).unwrap();
            region.write_at(0, &[7; 8]).unwrap();
            let to = region.remote().write();
            for _ in 0..3 {
                p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            }
            p.a.post_send(wr::Send::inline_list([])).unwrap();
            p.a.post_send(wr::Send::inline_list([b""])).unwrap();
            p.a.post_send(wr::RdmaWrite::inline_list([], to)).unwrap();
            post_send!(
                p.a,
                [wr::Send::inline_list([b"", b""]), wr::RdmaWrite::inline_list([b"", b""], to)]
            )
            .unwrap();
            p.home(5, 0);
            for got in poll(&p.dev, &mut p.cb, 3) {
                assert_eq!(got.received().data(), b"");
            }
            let mut there = [0; 8];
            region.read_at(0, &mut there).unwrap();
            assert_eq!(there, [7; 8]);
        })* };
    }
    arrive!(Framed, Direct);
}

/// The limit applies to the sum: the exact capacity is accepted. One more byte is rejected, and its
/// list posts nothing.
/// Proves R2.7, R2.8.
#[test]
fn slices_that_are_too_long_together_post_nothing_of_the_list() {
    fails_on!(NoRings);
    macro_rules! refuse {
        ($($profile:ty),*) => { $({
            let mut p = Pair::<Rc, $profile>::new();
            let bytes = numbered(4, 65);
            let (one, rest) = bytes.split_at(1);
            let (two, three) = rest.split_at(31);
            let too_long = PostErrorKind::InlineTooLong { asked: 65, max: 64 };
            let error = p.a.post_send(wr::Send::inline_list([one, two, three])).unwrap_err();
            assert_eq!((error.kind(), error.accepted()), (too_long, 0));
            assert!(
                error.to_string().ends_with(
                    "work request 0: an inline payload of 65 bytes exceeds the queue pair's \
                     max_inline of 64 (ask for more in the profile, or send from a buffer)"
                ),
                "{error}"
            );

            let buf = filled(&p.pool, b"comes back");
            let long = wr::Send::inline_list([three, b"", &bytes[..32]]).with_id(3);
            let error = post_send!(p.a, [wr::Send::new(buf), long]).unwrap_err();
            assert_eq!((error.kind(), error.accepted()), (too_long, 0));
            let back: Vec<_> = error.into_rejected().collect();
            assert_eq!((back.len(), &back[0][..]), (1, &b"comes back"[..]));

            let mut slots = SendSlots::<2, 3>::new();
            let mut list = p.a.send_list(&mut slots);
            list.push(wr::Send::inline_list([two, three])).unwrap();
            let error = list.push(wr::Send::inline_list([one, three, two])).unwrap_err();
            assert_eq!((error.kind(), error.accepted()), (too_long, 1));
            drop(list);
            assert_eq!((p.a.sends_outstanding(), p.a.send_room()), (0, 8));
            assert_eq!(poll_empty(&mut p.ca), 0);

            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(wr::Send::inline_list([two, b"", three])).unwrap();
            assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), rest);
            p.home(1, 0);
        })* };
    }
    refuse!(Framed, Ring, Direct, DirectRing);
}

/// A WRITE is as long as its slices together, which must fit the remote slice.
/// Proves R6.7.
#[test]
fn a_write_of_slices_fits_the_remote_slice() {
    let mut p = Pair::<Rc, Framed>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let to = region.remote().slice(8, 8).unwrap().write();
    let bytes = numbered(5, 9);
    let (head, tail) = bytes.split_at(4);
    let beyond = PostErrorKind::ExceedsSlice { asked: 9, max: 8 };
    let error = p.a.post_send(wr::RdmaWrite::inline_list([head, tail], to)).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (beyond, 0));
    let error = p.a.post_send(wr::RdmaWriteWithImm::inline_list([head, tail], to, 1)).unwrap_err();
    assert_eq!(error.kind(), beyond);
    let fits = wr::RdmaWrite::inline_list([head, b"", &tail[..4]], to);
    let error = post_send!(p.a, [fits, wr::RdmaWrite::inline_list([b"", tail, head], to)]);
    assert_eq!(error.unwrap_err().kind(), beyond);
    // Empty slices fit an empty remote slice.
    let nothing = region.remote().slice(64, 0).unwrap().write();
    assert!(p.a.post_send(wr::RdmaWrite::inline_list([b"", b"x"], nothing)).is_err());
    p.a.post_send(wr::RdmaWrite::inline_list([b"", b""], nothing)).unwrap();
    p.a.post_send(wr::RdmaWrite::inline_list([head, b"", &tail[..4]], to)).unwrap();
    p.home(2, 0);
    let all = [&[0; 8], &bytes[..8], &[0; 48]].concat();
    arrives(&p.dev, &all, |now| region.read_at(0, now).unwrap());
}

/// Proves R2.9.
#[test]
fn slices_are_free_when_the_post_returns() {
    let mut p = Pair::<Rc, Framed>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let (mut head, mut body) = (*b"before", vec![1, 2, 3]);
    p.a.post_send(wr::Send::inline_list([&head, &body, &head])).unwrap();
    head.fill(b'!');
    body.fill(0);
    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
    assert_eq!(got.data(), b"before\x01\x02\x03before");
    p.home(1, 0);
}

#[test]
fn slices_have_a_number() {
    let mut p = Pair::<Rc, Framed>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let at = region.remote().write();
    p.a.post_send(wr::RdmaWrite::inline_list([b"a", b"b"], at).with_id(7)).unwrap();
    post_send!(
        p.a,
        [
            wr::RdmaWrite::inline_list([b"c"], at).with_id(u16::MAX).fence(),
            wr::RdmaWrite::inline_list([b"", b""], at).with_id(8),
        ]
    )
    .unwrap();
    let mut ids = Vec::new();
    until(&p.dev, "three numbers", || {
        ids.extend(p.ca.poll().unwrap().map(|done| done.id()));
        ids.len() == 3
    });
    assert_eq!(ids, [7, u16::MAX, 8]);
}

profile! { Any { max_send_sge: 2, initiator: NoReads, entry: AnyBuf } }

/// A message of slices invalidates the key of a window.
#[test]
fn slices_with_an_invalidation() {
    fails_on!(IwarpOtherwise, "R1.6");
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<Windowed<LocalWrite>>(64).unwrap();
    let window = p.a.alloc_mw().unwrap();
    let (bind, key) =
        ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap().lend();
    p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(bind).unwrap();
    let lent: WindowEntry = match poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry {
        Some(AnyBuf::Window(window)) => window,
        other => panic!("{other:?} is no window"),
    };
    p.b.post_send(ext::windows::SendWithInv::inline_list([b"d", b"one"], key)).unwrap();
    poll(&p.dev, &mut p.cb, 1);
    let received = poll(&p.dev, &mut p.ca, 1).remove(0).received();
    assert_eq!(received.data(), &b"done"[..]);
    drop(lent);
}
