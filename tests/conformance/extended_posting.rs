//! Extended posting: the same work requests, with one session per post.

use proverbs::completion::WcOpcode;
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::windows::{WindowEntry, Windowed};
use proverbs::loopback::{Fabric, Fault, Personality, Script, World};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::rules::HasBothQueues;

use crate::support::*;

profile! { Direct { posting: ExtendedPosting } }
profile! { Lists { posting: ExtendedPosting, max_send_sge: 3, max_recv_sge: 3, entry: BufList } }
profile! { Any { posting: ExtendedPosting, entry: AnyBuf } }
profile! { Ring { posting: ExtendedPosting, signaling: Selective } }
profile! { Writer { posting: ExtendedPosting, initiator: NoReads } }
profile! { Wide { posting: ExtendedPosting, max_send_sge: 129 } }
profile! { AsWide { posting: ExtendedPosting, max_send_sge: 128 } }

/// The immediates and bytes that the second end received.
fn got<P: Profile<Entry = Buf>>(p: &mut Pair<Rc, P>, n: usize) -> Vec<(Option<u32>, Vec<u8>)> {
    let got = poll(&p.dev, &mut p.cb, n).into_iter().map(Done::received);
    got.map(|got| (got.imm_data, got.data().to_vec())).collect()
}

/// Every RC opcode that carries data, alone and in one list, from a buffer, inline and empty.
///
/// A queue pair of extended posting is created with READ and atomics, so no opcode calls
/// a null pointer.
/// Proves R15.1.
#[test]
fn each_opcode_of_rc_arrives() {
    fails_on!(Iwarp, "R15.1");
    let wish = Wish { depth: Depth { send: 12, recv: 8 }, ..Wish::new() };
    let mut p = Pair::<Rc, Direct>::with(&wish);
    let region = p.pd.register::<RemoteAll>(256).unwrap();
    let (at, far) = (region.remote(), region.remote().slice(128, 64).unwrap());
    let cell = region.remote().atomic(64).unwrap();
    for _ in 0..6 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    p.a.post_send(wr::Send::new(filled(&p.pool, b"alone"))).unwrap();
    p.a.post_send(wr::Send::inline_slice(b"inline")).unwrap();
    p.a.post_send(wr::Send::new(wr::Empty)).unwrap();
    post_send!(
        p.a,
        [
            wr::SendWithImm::new(filled(&p.pool, b"imm"), 0x0102_0304).solicited(),
            wr::RdmaWrite::new(filled(&p.pool, b"written!"), at.write()),
            wr::RdmaWriteWithImm::inline(b"by far", far.write(), 7),
        ]
    )
    .unwrap();
    let operands = wr::CompareSwap { compare: 3, swap: u64::MAX - 1 };
    let read = wr::RdmaRead::new(poisoned(&p.pool), at.slice(0, 8).unwrap().read());
    p.a.post_send(wr::FetchAndAdd::new(poisoned(&p.pool), cell, 3)).unwrap();
    post_send!(p.a, [wr::CmpAndSwp::new(poisoned(&p.pool), cell, operands), read.fence()]).unwrap();
    let sent: Vec<_> = poll(&p.dev, &mut p.ca, 9).into_iter().map(Done::sent).collect();
    let opcodes: Vec<_> = sent.iter().map(|sent| sent.opcode).collect();
    use WcOpcode::*;
    assert_eq!(
        opcodes,
        [Send, Send, Send, Send, RdmaWrite, RdmaWrite, FetchAdd, CompSwap, RdmaRead]
    );
    let came: Vec<_> = sent.into_iter().map(|sent| sent.entry.map(|buf| buf.to_vec())).collect();
    assert_eq!(came[0].as_deref(), Some(&b"alone"[..]));
    assert_eq!((&came[1], &came[2], &came[5]), (&None, &None, &None));
    assert_eq!(came[6].as_deref(), Some(&0u64.to_ne_bytes()[..]));
    assert_eq!(came[7].as_deref(), Some(&3u64.to_ne_bytes()[..]));
    assert_eq!(came[8].as_deref(), Some(&b"written!"[..]));
    let expected: [(Option<u32>, &[u8]); 5] = [
        (None, b"alone"),
        (None, b"inline"),
        (None, b""),
        (Some(0x0102_0304), b"imm"),
        (Some(7), b""),
    ];
    assert_eq!(got(&mut p, 5), expected.map(|(imm, bytes)| (imm, bytes.to_vec())));
    let mut there = [0; 8];
    region.read_at(64, &mut there).unwrap();
    assert_eq!(u64::from_ne_bytes(there), u64::MAX - 1);
    let mut there = [0; 6];
    region.read_at(128, &mut there).unwrap();
    assert_eq!(&there, b"by far");
}

/// Empty WRITEs and READs, which need no bytes at the peer (R3.4).
#[test]
fn writes_and_reads_of_no_bytes() {
    fails_on!(Iwarp, "R15.1");
    let mut p = Pair::<Rc, Direct>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    region.write_at(0, &[7; 64]).unwrap();
    let nothing = region.remote().slice(64, 0).unwrap();
    p.a.post_send(wr::RdmaWrite::new(wr::Empty, nothing.write())).unwrap();
    p.a.post_send(wr::RdmaWrite::inline(b"", nothing.write())).unwrap();
    p.a.post_send(wr::RdmaRead::new(wr::Empty, nothing.read())).unwrap();
    let done = poll(&p.dev, &mut p.ca, 3).into_iter().map(|done| done.sent().opcode);
    assert_eq!(
        done.collect::<Vec<_>>(),
        [WcOpcode::RdmaWrite, WcOpcode::RdmaWrite, WcOpcode::RdmaRead]
    );
    let mut there = [0; 64];
    region.read_at(0, &mut there).unwrap();
    assert_eq!(there, [7; 64]);
}

/// UC, and a queue pair without reads, are created for fewer operations.
/// Proves R15.1.
#[test]
fn a_queue_pair_without_reads_writes_and_sends() {
    fails_on!(Iwarp, "R24.2");
    fn writes<T: Bring<Writer>>()
    where
        wr::WorkRequest<wr::Send, wr::Inline<'static, 4>>: wr::SendOn<T, Writer>,
        wr::WorkRequest<wr::RdmaWriteWithImm, Buf>: wr::SendOn<T, Writer>,
    {
        let mut p = Pair::<T, Writer>::new();
        let region = p.pd.register::<RemoteWrite>(64).unwrap();
        for _ in 0..2 {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        }
        let to = region.remote().write();
        p.a.post_send(wr::Send::inline(b"sent")).unwrap();
        p.a.post_send(wr::RdmaWriteWithImm::new(filled(&p.pool, b"written"), to, 9)).unwrap();
        let got = poll(&p.dev, &mut p.cb, 2).into_iter().map(Done::received);
        let got: Vec<_> = got.map(|got| (got.imm_data, got.data().to_vec())).collect();
        assert_eq!(got, [(None, b"sent".to_vec()), (Some(9), vec![])]);
        poll(&p.dev, &mut p.ca, 2);
        let mut there = [0; 7];
        region.read_at(0, &mut there).unwrap();
        assert_eq!(&there, b"written");
    }
    writes::<Uc>();
    writes::<Rc>();
}

/// Proves R15.1, R15.5.
#[test]
fn datagrams_name_their_destination() {
    fails_on!(Iwarp, "R24.2");
    let mut p = Pair::<Ud, Direct>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    for _ in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    p.a.post_send(wr::Send::new(filled(&p.pool, b"a buffer")).to(to)).unwrap();
    post_send!(
        p.a,
        [wr::SendWithImm::new(wr::Empty, u32::MAX).to(to), wr::Send::inline(b"inline").to(to)]
    )
    .unwrap();
    poll(&p.dev, &mut p.ca, 3);
    let got = poll(&p.dev, &mut p.cb, 3).into_iter().map(Done::datagram);
    let got: Vec<_> = got.map(|g| (g.imm_data, g.payload().to_vec())).collect();
    assert_eq!(
        got,
        [(None, b"a buffer".to_vec()), (Some(u32::MAX), vec![]), (None, b"inline".to_vec())]
    );
}

/// Elements of different lengths arrive unchanged, also from librxe, which would send wrong bytes
/// in a session. Other requests of the list are posted with them, in order.
/// Proves R15.10, R15.13.
#[test]
fn several_buffers_are_one_message() {
    fails_on!(Iwarp, "R24.4");
    fn first(list: &BufList) -> &[u8] {
        list.segments().next().unwrap()
    }
    let mut p = Pair::<Rc, Lists>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    let at = region.remote();
    for _ in 0..2 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let three = || [b"0123456789" as &[u8], b"a", b"bcdef"].map(|bytes| filled(&p.pool, bytes));
    let write = wr::RdmaWrite::new(three(), at.write());
    post_send!(p.a, [write, wr::Send::inline(b"between"), wr::Send::new(three())]).unwrap();
    let sent: Vec<_> = poll(&p.dev, &mut p.ca, 3).into_iter().map(Done::sent).collect();
    let sizes = sent.iter().map(|sent| sent.entry.as_ref().map_or(0, |list| list.len()));
    assert_eq!(sizes.collect::<Vec<_>>(), [3, 0, 3]);
    let got = poll(&p.dev, &mut p.cb, 2).into_iter().map(Done::received);
    let got: Vec<_> = got.map(|got| (got.byte_len, got.entry.unwrap())).collect();
    assert_eq!((got[0].0, &first(&got[0].1)[..7]), (7, &b"between"[..]));
    assert_eq!((got[1].0, &first(&got[1].1)[..16]), (16, &b"0123456789abcdef"[..]));
    let mut there = [0; 16];
    region.read_at(0, &mut there).unwrap();
    assert_eq!(&there, b"0123456789abcdef");
    let read = wr::RdmaRead::new([poisoned(&p.pool)], at.slice(9, 3).unwrap().read());
    p.a.post_send(read).unwrap();
    let read = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    assert_eq!(first(&read), b"9ab");
}

/// Inline data of a session arrives with every operation, alone and in one session. librxe also
/// checks the flag, and fails the request without it.
/// Proves R15.8.
#[test]
fn inline_data_of_a_session_arrives() {
    fails_on!(Iwarp, "R15.1");
    let mut p = Pair::<Rc, Direct>::new();
    let region = p.pd.register::<RemoteWrite>(128).unwrap();
    let (at, far) = (region.remote(), region.remote().slice(64, 64).unwrap());
    for _ in 0..4 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let most = [9; 64];
    p.a.post_send(wr::Send::inline_slice(&most)).unwrap();
    p.a.post_send(wr::RdmaWrite::inline(b"written alone", at.write())).unwrap();
    post_send!(
        p.a,
        [
            wr::Send::inline(b"s"),
            wr::SendWithImm::inline(b"with a number", 3),
            wr::RdmaWriteWithImm::inline(b"by far", far.write(), 4),
        ]
    )
    .unwrap();
    let sent = poll(&p.dev, &mut p.ca, 5).into_iter().map(|done| done.sent().entry.is_none());
    assert_eq!(sent.collect::<Vec<_>>(), [true; 5]);
    let expected: [(Option<u32>, &[u8]); 4] =
        [(None, &most), (None, b"s"), (Some(3), b"with a number"), (Some(4), b"")];
    assert_eq!(got(&mut p, 4), expected.map(|(imm, bytes)| (imm, bytes.to_vec())));
    let mut there = [0; 70];
    region.read_at(0, &mut there).unwrap();
    assert_eq!((&there[..13], &there[64..]), (&b"written alone"[..], &b"by far"[..]));

    let mut p = Pair::<Ud, Direct>::new();
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::inline(b"datagram").to(to)).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).datagram().payload(), b"datagram");
}

/// The inline flag belongs to one work request: a buffer after it in the session is sent as a
/// buffer. librxe would otherwise send its element, which is an address and a key, to the peer.
/// Proves R15.9.
#[test]
fn a_buffer_beside_inline_data_is_sent_as_a_buffer() {
    fails_on!(Iwarp, "R15.1");
    // As long as a scatter/gather element.
    let (buffer, inline) = (b"0123456789abcdef", b"sixteen in line.");
    let mut p = Pair::<Rc, Direct>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let to = region.remote().write();
    for _ in 0..5 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let send = || wr::Send::new(filled(&p.pool, buffer));
    post_send!(p.a, [wr::Send::inline(inline), send(), wr::Send::inline(inline), send()]).unwrap();
    let write = wr::RdmaWrite::new(filled(&p.pool, buffer), to);
    post_send!(p.a, [wr::Send::inline(inline), write]).unwrap();
    let sent = poll(&p.dev, &mut p.ca, 6).into_iter().map(Done::sent);
    let sent: Vec<_> = sent.map(|sent| sent.entry.map(|buf| buf.to_vec())).collect();
    let back = || Some(buffer.to_vec());
    assert_eq!(sent, [None, back(), None, back(), None, back()]);
    let expected = [inline, buffer, inline, buffer, inline];
    assert_eq!(got(&mut p, 5), expected.map(|bytes| (None, bytes.to_vec())));
    let mut there = [0; 16];
    region.read_at(0, &mut there).unwrap();
    assert_eq!(&there, buffer);
}

/// BIND, use by the peer, and both ways in which a key becomes invalid.
/// Proves R15.1.
#[test]
fn windows_are_bound_and_invalidated() {
    fails_on!(Iwarp, "R15.1");
    let mut p = Pair::<Rc, Any>::new();
    let region = p.pd.register::<Windowed<LocalWrite>>(128).unwrap();
    let back = |p: &mut Pair<Rc, Any>| -> WindowEntry {
        match poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry {
            Some(AnyBuf::Window(window)) => window,
            other => panic!("{other:?} is no window"),
        }
    };
    let window = p.a.alloc_mw().unwrap();
    let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 64..128).unwrap();
    p.a.post_send(bind).unwrap();
    let bound = back(&mut p).into_bound::<RemoteWrite>().unwrap();
    p.b.post_send(wr::RdmaWrite::inline(b"windowed", bound.remote().write())).unwrap();
    poll(&p.dev, &mut p.cb, 1);
    let mut there = [0; 8];
    region.read_at(64, &mut there).unwrap();
    assert_eq!(&there, b"windowed");
    let window = match p.a.post_send(ext::windows::LocalInv::new(bound)) {
        Ok(()) => back(&mut p).into_unbound().unwrap(),
        Err(error) => {
            assert_eq!(error.kind(), PostErrorKind::LocalInvOnSoftRoce);
            assert!(p.dev.is_soft_roce());
            p.a.alloc_mw().unwrap()
        }
    };

    let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
    let (bind, key) = bind.lend();
    p.a.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(bind).unwrap();
    let lent = back(&mut p).into_lent().unwrap();
    p.b.post_send(ext::windows::SendWithInv::inline(b"done", key)).unwrap();
    poll(&p.dev, &mut p.cb, 1);
    until(&p.dev, "the message that ends the key", || {
        p.ca.poll_one().unwrap().is_some_and(|completion| {
            completion.status().unwrap();
            assert_eq!(completion.opcode(), Some(WcOpcode::Recv));
            true
        })
    });
    drop(lent);
}

/// The ring of a queue with selective signaling: the last request of a list is signaled.
/// Proves R15.7.
#[test]
fn lists_and_rings_work_as_usual() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    for _ in 0..5 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    for i in 0..3u8 {
        list.push(wr::Send::new(filled(&p.pool, &[i; 3]))).unwrap();
    }
    list.post().unwrap();
    assert_eq!(p.a.sends_outstanding(), 3);
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1).remove(0);
    assert_eq!((done.0, done.1.len()), (Ok(()), 3));
    let mut prepared = wr::Send::new(wr::Placeholder).prepare();
    for i in 3..5u8 {
        p.a.post_prepared(&mut prepared, filled(&p.pool, &[i; 3])).unwrap();
    }
    assert_eq!(complete(&p.dev, &mut p.ca, &mut p.a, 2).len(), 2);
    let got = got(&mut p, 5);
    assert_eq!(got, (0..5u8).map(|i| (None, vec![i; 3])).collect::<Vec<_>>());

    // A list that is dropped opens no session.
    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    list.push(wr::Send::new(filled(&p.pool, b"never"))).unwrap();
    drop(list);
    assert_eq!((p.a.sends_outstanding(), p.a.send_room()), (0, 8));
}

/// An unsignaled list of the macro requests a completion only if it fills the queue (R9.8).
///
/// An unsignaled list that fills the queue in a session is signaled, so room returns.
#[test]
fn an_unsignaled_list_of_a_session_that_fills_the_queue_is_signaled() {
    fails_on!(NoRings);
    let wish = Wish { depth: Depth { send: 4, recv: 8 }, ..Wish::new() };
    let mut p = Pair::<Rc, Ring>::with(&wish);
    for _ in 0..4 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    let send = |i| wr::Send::new(filled(&p.pool, &[i]));
    let _ = post_send!(p.a, [send(0), send(1)], unsignaled).unwrap();
    let _ = post_send!(p.a, [send(2), send(3)], unsignaled).unwrap();
    let all = (0..4).map(|i| (None, vec![i])).collect::<Vec<_>>();
    assert_eq!(got(&mut p, 4), all);
    let done = complete(&p.dev, &mut p.ca, &mut p.a, 1).remove(0);
    assert_eq!((done.0, done.1.len()), (Ok(()), 4), "the second list requested a completion");
}

/// Requests that the crate rejects never reach a session.
/// Proves R15.7.
#[test]
fn mistakes_are_returned_before_the_session() {
    fails_on!(Iwarp, "R15.1");
    let mut p = Pair::<Rc, Direct>::new();
    let error = p.a.post_send(wr::Send::inline_slice(&[0; 65])).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::InlineTooLong { asked: 65, max: 64 });
    for _ in 0..8 {
        p.a.post_send(wr::Send::new(filled(&p.pool, b"x"))).unwrap();
    }
    let error = p.a.post_send(wr::Send::new(filled(&p.pool, b"y"))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 1, room: 0 });
    let mut a = p.a.to_error().unwrap();
    let mut home = 0;
    a.drain(&mut p.ca, |_| home += 1).unwrap();
    assert_eq!((home, a.sends_outstanding()), (8, 0));
}

fn scripted(personality: Personality, fault: Fault) -> Pair<Rc, Direct> {
    let fabric = Fabric::with(personality);
    let p = Pair::on(Device::loopback(&fabric), &Wish::new());
    fabric.inject(Script::default().with(fault.nth(1)));
    p
}

/// A session that the device refuses is refused as a whole, and comes back; only the next post
/// arrives.
/// Proves R15.6.
#[test]
fn a_full_queue_accepts_nothing_of_a_session() {
    for (personality, errno) in
        [(Personality::Plain, libc::ENOMEM), (Personality::Rxe, libc::ENOSPC)]
    {
        let mut p = scripted(personality, Fault::Refuse { errno });
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        let send = |i: u8| wr::Send::new(filled(&p.pool, &[i]));
        let error = post_send!(p.a, [send(100), send(101)]).unwrap_err();
        assert_eq!((error.verb(), error.accepted()), ("ibv_wr_complete", 0));
        assert_eq!(error.kind(), PostErrorKind::Refused { errno });
        assert!(error.is_full());
        let back: Vec<u8> = error.into_rejected().map(|buf| buf[0]).collect();
        assert_eq!((back, p.a.sends_outstanding(), p.a.send_room()), (vec![100, 101], 0, 8));
        p.a.post_send(send(102)).unwrap();
        assert_eq!(got(&mut p, 1), [(None, vec![102])]);
        poll(&p.dev, &mut p.ca, 1);
    }
}

/// librxe may have written its ring when the kernel refuses, so a refused session stays with it,
/// unless it reports that the ring was full. Other providers post nothing.
///
/// A session that librxe rejects after it wrote its ring keeps the buffers with the
/// device.
/// Proves R15.6, R15.12.
#[test]
fn a_refused_session_posted_nothing_except_on_librxe() {
    let refused = |personality, fault| {
        let mut p = scripted(personality, fault);
        let send = |text: &[u8]| wr::Send::new(filled(&p.pool, text));
        let error = post_send!(p.a, [send(b"one"), send(b"two")]).unwrap_err();
        (error.kind(), error.accepted(), error.into_rejected().count())
    };
    let plain = Personality::Plain;
    let unknown = |errno| (PostErrorKind::OutcomeUnknown { errno }, 0, 0);
    let whole = |errno| (PostErrorKind::Refused { errno }, 0, 2);
    let taken = Fault::OutcomeUnknown { errno: libc::EIO, taken: true };
    assert_eq!(refused(plain, Fault::Refuse { errno: libc::EINVAL }), whole(libc::EINVAL));
    assert_eq!(refused(plain, taken), whole(libc::EIO));
    assert_eq!(refused(Personality::Rxe, taken), unknown(libc::EIO));
    let full = Fault::Refuse { errno: libc::ENOSPC };
    assert_eq!(refused(Personality::Rxe, full), whole(libc::ENOSPC));
    let no_memory = Fault::Refuse { errno: libc::ENOMEM };
    assert_eq!(refused(Personality::Rxe, no_memory), unknown(libc::ENOMEM));
}

/// R15.1.
/// Proves R15.1.
#[test]
fn a_device_without_sessions_reports_it() {
    let dev = Device::loopback(&Fabric::with(World::iwarp()));
    let (pd, cq) = (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_cq(40).unwrap());
    let depth = Depth { send: 4, recv: 4 };
    let error = pd.create_qp::<Rc, Direct>(&cq, &cq, depth).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("ibv_create_qp_ex", Some(libc::EOPNOTSUPP)));
    assert!(error.to_string().contains("send_ops_flags 0x3ff"), "{error}");
    assert!(error.to_string().contains("use a profile with `OrdinaryPosting`"), "{error}");
    pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
}

#[test]
fn more_elements_than_a_session_copies_are_rejected_at_creation() {
    fails_on!(Iwarp, "R24.4");
    fn refused<T: HasBothQueues>(dev: &Device) {
        let (pd, cq) = (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_cq(40).unwrap());
        let error = pd.create_qp::<T, Wide>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap_err();
        let text = "ibv_create_qp_ex: max_send_sge of extended posting 129 exceeds 128";
        assert_eq!(said(&error), text);
        // The device decides about this many.
        let error = pd.create_qp::<T, AsWide>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap_err();
        let max = dev.ctx.query_device().unwrap().max_sge;
        assert_eq!(said(&error), format!("ibv_create_qp_ex: max_send_sge 128 exceeds {max}"));
    }
    let dev = Device::open();
    refused::<Rc>(&dev);
    refused::<Ud>(&dev);
}
