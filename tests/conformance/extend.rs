//! `extend` of run-time lists: posted and returned requests, whatever the iterator does.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }

/// Buffers with contents 0, 1 and so on.
fn labelled(pool: &Pool, n: u8) -> Vec<Buf> {
    (0..n).map(|i| filled(pool, &[i])).collect()
}

fn labels(bufs: impl Iterator<Item = Buf>) -> Vec<u8> {
    bufs.map(|buf| buf[0]).collect()
}

/// An iterator with an arbitrary `size_hint`.
struct Claims<I>(I, (usize, Option<usize>));

impl<I: Iterator> Iterator for Claims<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.1
    }
}

/// The tests for one profile: sends of `a`, observed by their arrival at `b`, and receives.
macro_rules! tests {
    ($name:ident, $profile:ty) => {
        mod $name {
            use super::*;

            type Both = Pair<Rc, $profile>;

            fn arrived(p: &mut Both, n: usize) -> Vec<u8> {
                let got = poll(&p.dev, &mut p.cb, n).into_iter();
                labels(got.map(|g| g.received().entry.unwrap()))
            }

            /// Posts the list to a waiting peer, and returns the messages that arrived.
            macro_rules! posted {
                ($p:ident, $list:ident) => {{
                    let n = $list.len();
                    for _ in 0..n {
                        $p.b.post_recv(wr::Recv::new(poisoned(&$p.pool))).unwrap();
                    }
                    $list.post().unwrap();
                    let got = arrived(&mut $p, n);
                    assert_eq!($p.a.sends_outstanding() as usize, n);
                    got
                }};
            }

            #[test]
            fn requests_that_fit_are_posted_in_order() {
                fails_on!(NoRings, "", stringify!($profile) == "Ring");
                for n in [0, 1, 4, 8] {
                    let mut p = Both::new();
                    let mut slots = SendSlots::<8>::new();
                    let mut list = p.a.send_list(&mut slots);
                    let mut bufs: Vec<_> = labelled(&p.pool, n).into_iter().map(Some).collect();
                    // First an iterator of known length; then one with an upper bound only; and one
                    // without.
                    let (first, rest) = bufs.split_at_mut(n as usize / 2);
                    list.extend(first.iter_mut().map(|buf| wr::Send::new(buf.take().unwrap())))
                        .unwrap();
                    let mut rest = rest.iter_mut();
                    list.extend(rest.by_ref().take(1).filter_map(Option::take).map(wr::Send::new))
                        .unwrap();
                    list.extend(std::iter::from_fn(|| rest.next()?.take()).map(wr::Send::new))
                        .unwrap();
                    assert_eq!(list.len(), n as usize);
                    assert_eq!(posted!(p, list), (0..n).collect::<Vec<_>>());
                }
            }

            #[test]
            fn a_bad_request_and_later_ones_are_in_the_error() {
                fails_on!(NoRings, "", stringify!($profile) == "Ring");
                for place in 0..5 {
                    let mut p = Both::new();
                    let foreign = p.dev.ctx.alloc_pd().unwrap().create_pool(1, 8).unwrap();
                    let mut bufs = labelled(&p.pool, 5);
                    bufs[place] = filled(&foreign, &[place as u8]);
                    let mut slots = SendSlots::<8>::new();
                    let mut list = p.a.send_list(&mut slots);
                    list.push(wr::Send::new(filled(&p.pool, &[7]))).unwrap();
                    let error = list.extend(bufs.into_iter().map(wr::Send::new)).unwrap_err();
                    assert_eq!(error.kind(), PostErrorKind::PdMismatch);
                    assert_eq!((error.accepted(), list.len()), (place + 1, place + 1));
                    assert_eq!(labels(error.into_rejected()), (place as u8..5).collect::<Vec<_>>());
                    // The list can still be used.
                    list.extend([filled(&p.pool, &[8])].map(wr::Send::new)).unwrap();
                    let expected = [7].into_iter().chain(0..place as u8).chain([8]);
                    assert_eq!(posted!(p, list), expected.collect::<Vec<_>>());
                    assert_eq!(foreign.available(), 1);
                }
            }

            #[test]
            fn a_bad_receive_and_later_ones_are_in_the_error() {
                fails_on!(NoRings, "", stringify!($profile) == "Ring");
                for place in 0..5 {
                    let mut p = Both::new();
                    let foreign = p.dev.ctx.alloc_pd().unwrap().create_pool(1, 8).unwrap();
                    let mut bufs = labelled(&p.pool, 5);
                    bufs[place] = filled(&foreign, &[place as u8]);
                    let mut slots = RecvSlots::<8>::new();
                    let mut list = p.b.recv_list(&mut slots);
                    list.push(wr::Recv::new(poisoned(&p.pool))).unwrap();
                    let error = list.extend(bufs.into_iter().map(wr::Recv::new)).unwrap_err();
                    assert_eq!(error.kind(), PostErrorKind::PdMismatch);
                    assert_eq!((error.accepted(), list.len()), (place + 1, place + 1));
                    assert_eq!(labels(error.into_rejected()), (place as u8..5).collect::<Vec<_>>());
                    list.extend([poisoned(&p.pool)].map(wr::Recv::new)).unwrap();
                    list.post().unwrap();
                    assert_eq!(p.b.recvs_outstanding() as usize, place + 2);
                    assert_eq!((p.pool.available(), foreign.available()), (38 - place, 1));
                }
            }

            #[test]
            fn any_other_mistake_ends_the_list_there() {
                fails_on!(NoRings, "", stringify!($profile) == "Ring");
                let mut p = Both::new();
                let bytes = [9; 100];
                let mut slots = SendSlots::<8>::new();
                let mut list = p.a.send_list(&mut slots);
                let mut lengths = [1, 64, 65, 2].into_iter();
                let error =
                    list.extend(lengths.by_ref().map(|n| wr::Send::inline_slice(&bytes[..n])));
                let error = error.unwrap_err();
                assert_eq!(
                    (error.kind(), error.accepted()),
                    (PostErrorKind::InlineTooLong { asked: 65, max: 64 }, 2)
                );
                // The requests that were not taken still belong to the caller.
                assert_eq!((list.len(), lengths.next()), (2, Some(2)));
                assert_eq!(posted!(p, list), [9, 9]);
            }

            #[test]
            fn an_empty_buffer_is_an_empty_message() {
                fails_on!(NoRings, "", stringify!($profile) == "Ring");
                let mut p = Both::new();
                let bufs = [filled(&p.pool, &[1]), filled(&p.pool, &[]), filled(&p.pool, &[2])];
                let mut slots = SendSlots::<8>::new();
                let mut list = p.a.send_list(&mut slots);
                list.extend(bufs.map(wr::Send::new)).unwrap();
                for _ in 0..3 {
                    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
                }
                list.post().unwrap();
                let got = poll(&p.dev, &mut p.cb, 3).into_iter().map(|g| g.received().data().len());
                assert_eq!(got.collect::<Vec<_>>(), [1, 0, 1]);
            }

            #[test]
            fn requests_that_fit_precede_an_overflow() {
                fails_on!(NoRings, "", stringify!($profile) == "Ring");
                let mut p = Both::new();
                let mut slots = SendSlots::<3>::new();
                let mut list = p.a.send_list(&mut slots);
                let mut bufs = labelled(&p.pool, 5).into_iter();
                let error = list.extend(bufs.by_ref().map(wr::Send::new)).unwrap_err();
                assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 4, room: 3 });
                assert_eq!((list.len(), labels(error.into_rejected())), (3, vec![3]));
                assert_eq!(labels(bufs), [4]);
                assert_eq!(posted!(p, list), [0, 1, 2]);

                let mut slots = SendSlots::<16>::new();
                let mut list = p.a.send_list(&mut slots);
                let error =
                    list.extend(labelled(&p.pool, 7).into_iter().map(wr::Send::new)).unwrap_err();
                assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 6, room: 5 });
                assert_eq!((list.len(), labels(error.into_rejected())), (5, vec![5]));
                drop(list);

                let mut slots = RecvSlots::<3>::new();
                let mut list = p.b.recv_list(&mut slots);
                let error =
                    list.extend(labelled(&p.pool, 5).into_iter().map(wr::Recv::new)).unwrap_err();
                assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 4, room: 3 });
                assert_eq!((list.len(), labels(error.into_rejected())), (3, vec![3]));
                drop(list);
                assert_eq!(p.pool.available(), 37);
            }

            #[test]
            fn a_lying_iterator_fills_no_more_slots_than_there_are() {
                fails_on!(NoRings, "", stringify!($profile) == "Ring");
                for claimed in [0, 2, 4, 100, usize::MAX] {
                    let mut p = Both::new();
                    let bufs = labelled(&p.pool, 7).into_iter();
                    let mut slots = SendSlots::<4>::new();
                    let mut list = p.a.send_list(&mut slots);
                    let result =
                        list.extend(Claims(bufs.map(wr::Send::new), (claimed, Some(claimed))));
                    // Truncated at the claimed end; rejected if the claim is too long.
                    let n = claimed.min(4);
                    assert_eq!((list.len(), result.is_err()), (n, claimed > 4));
                    drop(result);
                    assert_eq!(posted!(p, list), (0..n as u8).collect::<Vec<_>>());
                    let mut p = Both::new();
                    let bufs = labelled(&p.pool, 7).into_iter();
                    let mut slots = RecvSlots::<4>::new();
                    let mut list = p.b.recv_list(&mut slots);
                    let result =
                        list.extend(Claims(bufs.map(wr::Recv::new), (claimed, Some(claimed))));
                    assert_eq!((list.len(), result.is_err()), (n, claimed > 4));
                    drop((result, list));
                    assert_eq!(p.pool.available(), 40);
                }
                // And an iterator that claimed more than it has.
                let mut p = Both::new();
                let bufs = labelled(&p.pool, 2).into_iter();
                let mut slots = SendSlots::<4>::new();
                let mut list = p.a.send_list(&mut slots);
                list.extend(Claims(bufs.map(wr::Send::new), (3, Some(3)))).unwrap();
                assert_eq!(posted!(p, list), [0, 1]);
            }

            #[test]
            fn a_panic_of_the_iterator_posts_no_unchecked_request() {
                fails_on!(NoRings, "", stringify!($profile) == "Ring");
                let foreign = |p: &Both| p.dev.ctx.alloc_pd().unwrap().create_pool(1, 8).unwrap();
                for hint in [Some(5), None] {
                    // Pushed requests stay or are dropped, and the list can be posted.
                    let mut p = Both::new();
                    let mut slots = SendSlots::<8>::new();
                    let mut list = p.a.send_list(&mut slots);
                    list.push(wr::Send::new(filled(&p.pool, &[7]))).unwrap();
                    let panics = |buf: Buf| match buf[0] {
                        3 => resume_unwind(Box::new("on purpose")),
                        _ => wr::Send::new(buf),
                    };
                    let bufs = labelled(&p.pool, 5).into_iter();
                    let extend = || list.extend(Claims(bufs.map(panics), (5, hint)));
                    assert!(catch_unwind(AssertUnwindSafe(extend)).is_err());
                    list.extend(labelled(&p.pool, 1).into_iter().map(wr::Send::new)).unwrap();
                    let before = if hint.is_some() { vec![7, 0, 1, 2] } else { vec![] };
                    assert_eq!(posted!(p, list), before.into_iter().chain([0]).collect::<Vec<_>>());

                    // A buffer that was not checked before the panic is checked by the next step,
                    // whichever it is.
                    for next in 0..3 {
                        let mut p = Both::new();
                        let foreign = foreign(&p);
                        let mut slots = SendSlots::<8>::new();
                        let mut list = p.a.send_list(&mut slots);
                        let strange = [Some(foreign.take().unwrap()), None].into_iter();
                        let panics = |buf: Option<Buf>| match buf {
                            Some(buf) => wr::Send::new(buf),
                            None => resume_unwind(Box::new("on purpose")),
                        };
                        let extend = || drop(list.extend(Claims(strange.map(panics), (5, hint))));
                        // (If pushed one by one, it is rejected earlier.)
                        assert_eq!(catch_unwind(AssertUnwindSafe(extend)).is_err(), hint.is_some());
                        assert_eq!(list.len(), hint.is_some() as usize);
                        let good = || labelled(&p.pool, 2).into_iter().map(wr::Send::new);
                        let result = match next {
                            0 => list.post(),
                            1 => {
                                let result = list.extend(good());
                                drop(list);
                                result
                            }
                            _ => {
                                let result = list.extend(Claims(good(), (0, None)));
                                drop(list);
                                result
                            }
                        };
                        let kind = result.map_err(|error| error.kind());
                        assert_eq!(kind.err(), hint.map(|_| PostErrorKind::PdMismatch));
                        assert_eq!((foreign.available(), p.pool.available()), (1, 40));
                        assert_eq!((p.a.sends_outstanding(), poll_empty(&mut p.ca)), (0, 0));
                    }

                    let mut p = Both::new();
                    let foreign = foreign(&p);
                    let mut slots = RecvSlots::<8>::new();
                    let mut list = p.b.recv_list(&mut slots);
                    let strange = [Some(foreign.take().unwrap()), None].into_iter();
                    let panics = |buf: Option<Buf>| match buf {
                        Some(buf) => wr::Recv::new(buf),
                        None => resume_unwind(Box::new("on purpose")),
                    };
                    let extend = || drop(list.extend(Claims(strange.map(panics), (5, hint))));
                    // (If pushed one by one, it is rejected earlier.)
                    assert_eq!(catch_unwind(AssertUnwindSafe(extend)).is_err(), hint.is_some());
                    assert_eq!(list.len(), hint.is_some() as usize);
                    assert_eq!(list.post().is_err(), hint.is_some());
                    assert_eq!((foreign.available(), p.b.recvs_outstanding()), (1, 0));
                }
            }
        }
    };
}

tests!(where_all_complete, DefaultProfile);
tests!(where_some_complete, Ring);
