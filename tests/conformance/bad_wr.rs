//! The device itself refuses, at every index of a list.
//!
//! `believe_in_send_depth` lets the crate believe in more room than there is. Nothing drains: the
//! peer has no receive posted and is waited for without end.

use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

const N: usize = 4;
/// What the crate believes in; the device grants less.
const BELIEVED: u32 = 20;

/// Miri takes its time, and meets the same code at every other index.
const STEP: usize = if cfg!(miri) { 2 } else { 1 };

profile! { Ring { signaling: Selective } }

struct Full<P: Profile<Entry = Buf>> {
    p: Pair<Rc, P>,
    /// Sends that are with the device already, labelled from 0 on.
    filler: usize,
}

macro_rules! at_every_index {
    ($module:ident, $profile:ty, $released:expr) => {
        mod $module {
            use super::*;

            /// A queue pair whose device has room for `k` sends more.
            fn full(k: usize) -> Full<$profile> {
                let wish = Wish { depth: Depth { send: 5, recv: 12 }, ..Wish::new() };
                let mut p = Pair::<Rc, $profile>::with(&wish);
                let granted = p.a.granted_depth().send as usize;
                // Soft-RoCE says that it granted what was asked, and takes more.
                let granted = by_rule!(p.dev, "R9.6",
                    loopback: granted,
                    rxe: (granted + 1).next_power_of_two() - 1);
                assert!(granted >= N && granted + N <= BELIEVED as usize);
                p.a = p.a.believe_in_send_depth(BELIEVED).unwrap();
                let filler = granted - k;
                for i in 0..filler {
                    p.a.post_send(wr::Send::new(filled(&p.pool, &[i as u8]))).unwrap();
                }
                Full { p, filler }
            }

            /// The device took `k`, and gave the others back; they arrive, and no others.
            fn check(full: Full<$profile>, k: usize, result: Result<(), PostError<Buf>>) {
                let Full { mut p, filler } = full;
                let label = |i: usize| (filler + i) as u8;
                match result {
                    Ok(()) => assert_eq!(k, N),
                    Err(error) => {
                        assert_eq!(error.accepted(), k);
                        assert_eq!(error.kind(), PostErrorKind::Refused { errno: 12 });
                        assert!(error.is_full());
                        let text =
                            format!("ibv_post_send: work request {k}: ENOMEM: Cannot allocate memory");
                        assert!(said(&error).starts_with(&text), "{error}");
                        let back: Vec<u8> = error.into_rejected().map(|buf| buf[0]).collect();
                        assert_eq!(back, (k..N).map(label).collect::<Vec<_>>());
                    }
                }
                assert_eq!(p.a.sends_outstanding(), filler + k);
                for _ in 0..filler + k {
                    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
                }
                let got = poll(&p.dev, &mut p.cb, filler + k).into_iter();
                let got: Vec<u8> = got.map(|g| g.received().data()[0]).collect();
                assert_eq!(got, (0..filler + k).map(|i| i as u8).collect::<Vec<_>>());
                let released: fn(&mut Pair<Rc, $profile>, usize, usize) -> Vec<u8> = $released;
                assert_eq!(released(&mut p, filler, k), got);
                assert_eq!((p.a.sends_outstanding(), p.a.send_room()), (0, BELIEVED as usize));
                drop(p.b);
                assert_eq!((p.pool.available(), poll_empty(&mut p.ca)), (40, 0));
            }

            #[test]
            fn of_a_chain() {
                for k in (0..=N).step_by(STEP) {
                    let mut full = full(k);
                    let (pool, filler) = (full.p.pool.clone(), full.filler);
                    let send = |i: usize| wr::Send::new(filled(&pool, &[(filler + i) as u8]));
                    let result = post_send!(full.p.a, [send(0), send(1), send(2), send(3)]);
                    check(full, k, result);
                }
            }

            #[test]
            fn of_a_list() {
                for k in (0..=N).step_by(STEP) {
                    let mut full = full(k);
                    let mut slots = SendSlots::<N>::new();
                    let mut list = full.p.a.send_list(&mut slots);
                    for i in 0..N {
                        let buf = filled(&full.p.pool, &[(full.filler + i) as u8]);
                        list.push(wr::Send::new(buf)).unwrap();
                    }
                    let result = list.post();
                    check(full, k, result);
                }
            }
        }
    };
}

at_every_index!(every_send_signaled, DefaultProfile, |p, filler, k| {
    let sent = poll(&p.dev, &mut p.ca, filler + k).into_iter();
    sent.map(|sent| sent.sent().entry.unwrap()[0]).collect()
});

at_every_index!(selective, Ring, |p, filler, k| {
    let mut done = complete(&p.dev, &mut p.ca, &mut p.a, filler);
    // What was accepted of a list without its signaled end waits for the next signaled send.
    p.b.post_recv(wr::Recv::empty()).unwrap();
    if k < N {
        assert_eq!(p.a.sends_outstanding(), k);
        p.a.post_send(wr::Send::new(wr::Empty)).unwrap();
        poll(&p.dev, &mut p.cb, 1);
    }
    done.extend(complete(&p.dev, &mut p.ca, &mut p.a, 1));
    assert!(done.iter().all(|(status, _)| status.is_ok()));
    done.into_iter().flat_map(|(_, released)| released).map(|buf| buf[0]).collect()
});
