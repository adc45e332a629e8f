//! RC and UC: SEND and WRITE, with and without immediate.

use proverbs::completion::{Direction, WcOpcode};
use proverbs::ext::windows::Revocable;
use proverbs::prelude::*;

use crate::support::*;

macro_rules! connected {
    ($module:ident, $transport:ident) => {
        mod $module {
            use super::*;

            type T = $transport;

            /// Proves R10.5.
            #[test]
            fn sends_of_any_length_arrive() {
                fails_on!(Iwarp, "R24.2", stringify!($module) == "uc");
                let mut lengths = vec![1, 7, 8, 255, 1024];
                if !cfg!(miri) {
                    lengths.extend([1025, 2048, 4095, 4096]);
                }
                let wish = Wish { size: 4096, buffers: 4, ..Wish::new() };
                let mut p = Pair::<T>::with(&wish);
                for len in lengths {
                    let message = numbered(len, len);
                    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
                    p.a.post_send(wr::Send::new(filled(&p.pool, &message))).unwrap();
                    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
                    assert_eq!((sent.opcode, sent.qp_num), (WcOpcode::Send, p.a.qp_num()));
                    holds(sent.entry.unwrap(), &message);
                    let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
                    assert_eq!((got.opcode, got.imm_data), (WcOpcode::Recv, None));
                    assert_eq!((got.byte_len as usize, got.qp_num), (len, p.b.qp_num()));
                    holds(got.entry.unwrap(), &message);
                }
                assert_eq!(p.pool.available(), 4);
            }

            #[test]
            fn sends_arrive_in_order() {
                fails_on!(Iwarp, "R24.2", stringify!($module) == "uc");
                let mut p = Pair::<T>::new();
                for round in 0..if cfg!(miri) { 1 } else { 3 } {
                    for _ in 0..8 {
                        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
                    }
                    for i in 0..8 {
                        p.a.post_send(wr::Send::new(filled(&p.pool, &[round, i]))).unwrap();
                    }
                    let sent = poll(&p.dev, &mut p.ca, 8).into_iter().zip(0..);
                    sent.for_each(|(s, i)| drop(holds(s.sent().entry.unwrap(), &[round, i])));
                    let got = poll(&p.dev, &mut p.cb, 8).into_iter().zip(0..);
                    got.for_each(|(g, i)| drop(holds(g.received().entry.unwrap(), &[round, i])));
                }
            }

            /// Proves R1.4, R10.3.
            #[test]
            fn send_with_immediate() {
                fails_on!(Iwarp, "R24.2", stringify!($module) == "uc");
                fails_on!(Iwarp, "R24.4", stringify!($module) == "rc");
                let mut p = Pair::<T>::new();
                p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
                p.a.post_send(
                    wr::SendWithImm::new(filled(&p.pool, b"imm"), 0x0102_0304).solicited(),
                )
                .unwrap();
                assert_eq!(poll(&p.dev, &mut p.ca, 1).remove(0).sent().opcode, WcOpcode::Send);
                let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
                assert_eq!((got.opcode, got.imm_data), (WcOpcode::Recv, Some(0x0102_0304)));
                assert_eq!(got.data(), b"imm");
            }

            /// Proves R10.11.
            #[test]
            fn a_write_reaches_the_region_without_a_completion_at_the_peer() {
                fails_on!(Iwarp, "R24.2", stringify!($module) == "uc");
                fails_on!(IwarpOtherwise, "R24.15", stringify!($module) == "rc");
                let mut p = Pair::<T>::new();
                let region = p.pd.register::<RemoteWrite>(64).unwrap();
                let at = region.remote().slice(8, 16).unwrap();
                let bytes = numbered(1, 16);
                p.a.post_send(wr::RdmaWrite::new(filled(&p.pool, &bytes), at.write())).unwrap();
                // A later SEND on the same queue pair shows that it has arrived (R10.11).
                p.b.post_recv(wr::Recv::empty()).unwrap();
                p.a.post_send(wr::Send::new(wr::Empty)).unwrap();
                let sent = poll(&p.dev, &mut p.ca, 2).remove(0).sent();
                assert_eq!(sent.opcode, WcOpcode::RdmaWrite);
                holds(sent.entry.unwrap(), &bytes);
                let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
                assert_eq!((got.byte_len, got.entry.is_none()), (0, true));
                let mut all = [0; 64];
                region.read_at(0, &mut all).unwrap();
                assert_eq!(all[8..24], bytes[..]);
                assert!(all[..8].iter().chain(&all[24..]).all(|&byte| byte == 0));
            }

            /// Proves R1.4, R1.5.
            #[test]
            fn write_with_immediate_consumes_a_receive_and_lands_in_the_region() {
                fails_on!(Iwarp, "R24.2", stringify!($module) == "uc");
                fails_on!(Iwarp, "R24.4", stringify!($module) == "rc");
                let mut p = Pair::<T>::new();
                let region = p.pd.register::<RemoteWrite>(64).unwrap();
                p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
                let source = filled(&p.pool, &numbered(2, 24));
                p.a.post_send(wr::RdmaWriteWithImm::new(
                    source,
                    region.remote().write(),
                    0xdead_beef,
                ))
                .unwrap();
                let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
                assert_eq!(sent.opcode, WcOpcode::RdmaWrite);
                let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
                assert_eq!(got.opcode, WcOpcode::RecvRdmaWithImm);
                assert_eq!((got.imm_data, got.byte_len), (Some(0xdead_beef), 24));
                // The data is not in the receive's buffer (R1.5).
                assert!(got.data().is_empty());
                untouched(got.entry.unwrap());
                let mut bytes = [0; 24];
                region.read_at(0, &mut bytes).unwrap();
                assert_eq!(bytes[..], numbered(2, 24)[..]);
                assert_eq!(p.b.recvs_outstanding(), 0);
            }

            /// Proves R3.2.
            #[test]
            fn messages_of_no_bytes() {
                fails_on!(Iwarp, "R24.2", stringify!($module) == "uc");
                fails_on!(IwarpOtherwise, "R24.15", stringify!($module) == "rc");
                let mut p = Pair::<T>::new();
                let region = p.pd.register::<RemoteWrite>(8).unwrap();
                let remote = region.remote().write();
                post_recv!(
                    p.b,
                    [
                        wr::Recv::empty(),
                        wr::Recv::new(poisoned(&p.pool)),
                        wr::Recv::empty(),
                        wr::Recv::empty()
                    ]
                )
                .unwrap();
                post_send!(
                    p.a,
                    [
                        wr::Send::new(wr::Empty),
                        wr::SendWithImm::new(wr::Empty, 1),
                        wr::RdmaWrite::new(wr::Empty, remote),
                        wr::RdmaWriteWithImm::new(wr::Empty, remote, 2),
                        wr::SendWithImm::inline(&[], 3),
                    ]
                )
                .unwrap();
                let sent = poll(&p.dev, &mut p.ca, 5);
                assert!(sent.into_iter().all(|sent| sent.sent().entry.is_none()));
                let got = poll(&p.dev, &mut p.cb, 4).into_iter().map(Done::received);
                let got: Vec<_> = got.map(|g| (g.byte_len, g.imm_data, g.entry)).collect();
                let imm: Vec<_> = got.iter().map(|(_, imm, _)| *imm).collect();
                assert_eq!(imm, [None, Some(1), Some(2), Some(3)]);
                assert!(got.iter().all(|(len, ..)| *len == 0));
                for (i, (.., entry)) in got.into_iter().enumerate() {
                    assert_eq!(entry.is_some(), i == 1);
                    entry.map(|buf| holds(buf, &[]));
                }
            }

            #[test]
            fn a_buffer_sends_up_to_its_length_and_receives_up_to_its_capacity() {
                fails_on!(Iwarp, "R24.2", stringify!($module) == "uc");
                let mut p = Pair::<T>::new();
                let mut short = poisoned(&p.pool);
                short.set_len(3);
                p.b.post_recv(wr::Recv::new(short)).unwrap();
                let mut buf = filled(&p.pool, &numbered(3, 100));
                buf.set_len(60);
                p.a.post_send(wr::Send::new(buf)).unwrap();
                let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
                holds(got.entry.unwrap(), &numbered(3, 100)[..60]);
                poll(&p.dev, &mut p.ca, 1);
            }

            /// Proves R7.11.
            #[test]
            fn a_users_context_returns_with_the_buffer() {
                fails_on!(Iwarp, "R24.2", stringify!($module) == "uc");
                let wish = Wish::new();
                let mut dev_pair = super::with_context::<T>(&wish);
                let (p, pool) = &mut dev_pair;
                let mut buf = filled(pool, b"context");
                buf.context_mut().push_str(" of the sender");
                p.b.post_recv(wr::Recv::new(poisoned(pool))).unwrap();
                p.a.post_send(wr::Send::new(buf)).unwrap();
                let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
                assert_eq!(sent.entry.unwrap().context(), "buffer 0 of the sender");
                let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
                assert_eq!(got.entry.as_ref().unwrap().context(), "buffer 1");
                assert_eq!(got.data(), b"context");
            }
        }
    };
}

connected!(rc, Rc);
connected!(uc, Uc);

profile! { WithContext { entry: Buf<String> } }

fn with_context<T: Bring<WithContext>>(wish: &Wish) -> (Pair<T, WithContext>, Pool<String>) {
    let pair = Pair::<T, WithContext>::with(wish);
    let pool = pair.pd.pool(64).contexts(|i| format!("buffer {i}")).create(4).unwrap();
    (pair, pool)
}

/// A completion reports the same before and after it is taken apart.
#[test]
fn a_completion_describes_itself() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    for _ in 0..2 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    }
    p.a.post_send(wr::SendWithImm::new(filled(&p.pool, b"hello"), 0x0102_0304)).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"without"))).unwrap();
    p.a.post_send(wr::RdmaWrite::new(filled(&p.pool, b"write"), region.remote().write())).unwrap();
    let tell = |cq: &mut CompletionQueue, n: usize| {
        let mut told = Vec::new();
        let mut deadline = p.dev.deadline("completions");
        while told.len() < n {
            for completion in cq.poll().unwrap() {
                assert_eq!((completion.status(), completion.is_selective()), (Ok(()), false));
                let (imm, opcode) = (completion.imm_data(), completion.opcode());
                told.push((completion.direction(), opcode, imm, completion.qp_num()));
                match completion.outcome() {
                    Outcome::Received(received) => {
                        assert_eq!((received.imm_data, Some(received.opcode)), (imm, opcode));
                    }
                    Outcome::Sent(sent) => assert_eq!(Some(sent.opcode), opcode),
                    _ => panic!("neither"),
                }
            }
            deadline.tick(&told);
        }
        told
    };
    let (a, b) = (p.a.qp_num(), p.b.qp_num());
    let (send, receive) = (Direction::Send, Direction::Receive);
    let sends = [WcOpcode::Send, WcOpcode::Send, WcOpcode::RdmaWrite];
    assert_eq!(tell(&mut p.ca, 3), sends.map(|opcode| (send, Some(opcode), None, a)));
    let receives = [Some(0x0102_0304), None].map(|imm| (receive, Some(WcOpcode::Recv), imm, b));
    assert_eq!(tell(&mut p.cb, 2), receives);
}

/// A SEND_WITH_INV with the key of a region. On InfiniBand and RoCE a message can invalidate only
/// window keys: the sender may see no error, and the receiver fails (R1.6). On iWARP the message
/// invalidates the region's key. In both cases the message reached the peer with that key.
/// Proves R1.6.
#[test]
fn a_message_with_the_key_of_a_region() {
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    // The key works before.
    let write = |byte| wr::RdmaWrite::new(filled(&p.pool, &[byte; 64]), region.remote().write());
    p.a.post_send(write(1)).unwrap();
    drop(poll(&p.dev, &mut p.ca, 1).remove(0).sent());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(ext::windows::SendWithInv::new(
        filled(&p.pool, b"done"),
        Revocable::new(region.remote()),
    ))
    .unwrap();
    let arrived = poll(&p.dev, &mut p.cb, 1).remove(0);
    let sent = poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    assert_eq!(sent.opcode, <ext::windows::SendWithInv as wr::Opcode>::COMPLETES_AS);
    drop(sent);
    if p.dev.is_iwarp() {
        // siw_invalidate_stag in Linux's drivers/infiniband/sw/siw/siw_mem.c accepts any key.
        assert_eq!(arrived.received().data(), b"done");
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(write(2)).unwrap();
        // An operation that the peer forbids ends the connection, which the receive waits for.
        drop(poll(&p.dev, &mut p.cb, 1).remove(0).flushed(Direction::Receive));
        drop(poll(&p.dev, &mut p.ca, 1));
        let mut there = [0; 64];
        region.read_at(0, &mut there).unwrap();
        assert_eq!(there, [1; 64]);
    } else {
        drop(arrived.failed(Direction::Receive, WcStatus::RemInvReq));
    }
    assert_eq!(p.pool.available(), p.pool.count());
}
