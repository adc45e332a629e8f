//! Lists of the `unsafe` path: different opcodes and flags, the last one signaled, a run-time
//! number of elements, and keys of C's regions.

use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::loopback::Fabric;
use proverbs::memory::Raw;
use proverbs::post::RawPostError;
use proverbs::prelude::*;

use super::{connect, personalities, poll};

profile! { Plain { entry: Raw, signaling: Selective, max_send_sge: 4, max_recv_sge: 4, max_inline: 32 } }
profile! {
    Session { entry: Raw, signaling: Selective, max_send_sge: 4, max_recv_sge: 4, max_inline: 32, posting: ExtendedPosting }
}

/// A queue pair that is connected to itself, and its objects.
macro_rules! on_each {
    ($profile:ty, |$qp:ident, $cq:ident, $region:ident| $do:expr) => {
        for personality in personalities() {
            let context = Fabric::with(personality).open_device();
            let gid = context.query_gid(1, 1).unwrap();
            let pd = context.alloc_pd().unwrap();
            let mut $cq: CompletionQueue<Raw> = context.create_cq(64).unwrap();
            let qp = pd.create_qp::<Rc, $profile>(&$cq, &$cq, Depth { send: 8, recv: 8 }).unwrap();
            let own = qp.qp_num();
            let mut $qp = connect(qp, gid, own);
            let $region = pd.register::<RemoteAll>(1024).unwrap();
            $region.write_at(0, b"0123456789").unwrap();
            $do
        }
    };
}

/// WRITEs and a last WRITE_WITH_IMM with one doorbell, only the last one signaled: as a chain, and
/// as a list of run-time length.
macro_rules! lists_of_different_kinds {
    ($name:ident, $profile:ty) => {
        #[test]
        fn $name() {
            on_each!($profile, |qp, cq, region| {
                let piece = |range| wr::Piece::new(&region, range).unwrap();
                let at = |offset| region.remote().slice(offset, 16).unwrap();
                let write = |wr_id: u64| {
                    let i = wr_id as usize;
                    wr::RdmaWrite::new(
                        wr::Sge::new(wr_id, [piece(i..i + 1)]),
                        at(64 + wr_id).write(),
                    )
                };
                let last = |wr_id| {
                    let sge = wr::Sge::new(wr_id, [piece(3..4)]).inline();
                    wr::RdmaWriteWithImm::new(sge, at(67).write(), 5)
                };
                let add = wr::FetchAndAdd::new(
                    wr::Sge::new(4, [piece(512..520)]),
                    region.remote().atomic(520).unwrap(),
                    7,
                );
                let mut slots = SendSlots::<6, 4>::new();
                // SAFETY: the region lives to the end of the test, its bytes are accessed only by
                // atomics, and the completion queue has room.
                unsafe {
                    for wr_id in [20, 21] {
                        qp.post_recv_unchecked(wr::Recv::new(wr::Sge::new(wr_id, []))).unwrap();
                    }
                    post_send!(qp, [write(0), write(1), write(2), last(3).signaled()], unchecked)
                        .unwrap();
                }
                let mut done = poll(&mut cq, 2);
                done.sort_unstable();
                assert_eq!(done.iter().map(|(wr_id, _)| *wr_id).collect::<Vec<_>>(), [3, 20]);
                let mut there = [0; 4];
                region.read_at(64, &mut there).unwrap();
                assert_eq!(&there, b"0123");

                region.write_at(64, &[0; 8]).unwrap();
                // SAFETY: as above.
                unsafe {
                    let mut list = qp.raw_send_list(&mut slots);
                    assert!(list.is_empty());
                    for wr_id in 0..3 {
                        list.push(write(wr_id)).unwrap();
                    }
                    list.push(add.fence()).unwrap();
                    assert!(!list.is_empty());
                    list.push(last(5).fence().signaled()).unwrap();
                    list.push(write(6)).unwrap();
                    let full = list.push(write(7)).unwrap_err();
                    assert_eq!((full.errno, full.bad_wr), (libc::ENOMEM, Some(6)));
                    list.post().unwrap();
                    qp.raw_send_list(&mut slots).post().unwrap();
                    let signaled = |i: usize| write(i as u64).signaled_if(i == 2);
                    qp.post_send_list_unchecked(&mut slots, 3, signaled).unwrap();
                }
                let mut done = poll(&mut cq, 3);
                done.sort_unstable();
                assert_eq!(done.iter().map(|(wr_id, _)| *wr_id).collect::<Vec<_>>(), [2, 5, 21]);
                region.read_at(64, &mut there).unwrap();
                assert_eq!(&there, b"0123");
                let mut sum = [0; 8];
                region.read_at(520, &mut sum).unwrap();
                assert_eq!(u64::from_ne_bytes(sum), 7);
            });
        }
    };
}

lists_of_different_kinds! { kinds_and_flags_may_differ_in_a_list, Plain }
lists_of_different_kinds! { kinds_and_flags_may_differ_in_a_session, Session }

/// A list that does not fit reports the refused work request; those before it are posted.
#[test]
fn a_refusal_of_a_list_names_its_work_request() {
    on_each!(Plain, |qp, cq, region| {
        let granted = qp.granted_depth().send as usize;
        let piece = wr::Piece::new(&region, 0..1).unwrap();
        let to = region.remote().slice(64, 1).unwrap().write();
        let write = |i: usize| wr::RdmaWrite::new(wr::Sge::new(i as u64, [piece]), to);
        let send = |i: usize| {
            wr::RdmaRead::new(
                wr::Sge::new(i as u64, [piece]),
                region.remote().slice(64, 1).unwrap().read(),
            )
        };
        let mut slots = SendSlots::<4>::new();
        // SAFETY: the region lives to the end of the test, its bytes are accessed only by atomics,
        // and the completion queue has room.
        let refused = unsafe {
            for i in 2..granted {
                qp.post_send_unchecked(write(i)).unwrap();
            }
            let mut list = qp.raw_send_list(&mut slots);
            list.push(write(0)).unwrap();
            list.push(send(1).signaled()).unwrap();
            list.push(write(2)).unwrap();
            list.push(write(3)).unwrap();
            list.post().unwrap_err()
        };
        let full = RawPostError { verb: "ibv_post_send", errno: libc::ENOMEM, bad_wr: Some(2) };
        assert_eq!(refused, full);
        assert_eq!(poll(&mut cq, 1)[0].0, 1);
    });
}

/// As many elements as a slice has, on both sides, with keys given as numbers.
macro_rules! elements_at_run_time {
    ($name:ident, $profile:ty) => {
        #[test]
        fn $name() {
            on_each!($profile, |qp, cq, region| {
                let base = region.remote();
                let (addr, lkey) = {
                    // SAFETY: a live region.
                    use proverbs::raw::AsRaw;
                    let mr = region.as_raw();
                    // SAFETY: the region is live.
                    unsafe { ((*mr).addr as u64, (*mr).lkey) }
                };
                assert_eq!(addr, base.addr());
                let piece = |at: u64, len| wr::Piece::from_raw(addr + at, len, lkey);
                for count in 0..=4 {
                    let from: Vec<_> = (0..count).map(|i| piece(2 * i, 1)).collect();
                    let into: Vec<_> = (0..count).map(|i| piece(256 + 16 * i, 1)).collect();
                    // SAFETY: the key belongs to a live region with LOCAL_WRITE, which lives to the
                    // end of the test; at most 4 elements; the completion queue has room.
                    unsafe {
                        qp.post_recv_unchecked(wr::Recv::new(wr::SgeList::new(1, &into))).unwrap();
                        let send = wr::Send::new(wr::SgeList::new(2, &from)).signaled();
                        qp.post_send_unchecked(send).unwrap();
                    }
                    let mut done = poll(&mut cq, 2);
                    done.sort_unstable();
                    assert_eq!(done, [(1, Some(count as u32)), (2, None)]);
                    for i in 0..count as usize {
                        let mut byte = [0];
                        region.read_at(256 + 16 * i, &mut byte).unwrap();
                        assert_eq!(byte, [b'0' + 2 * i as u8]);
                    }
                }
                // Lists of lists, and inline bytes of the stack, whose key is ignored.
                let bytes = *b"on the stack";
                let here = bytes.as_ptr().expose_provenance() as u64;
                let parts = [wr::Piece::from_raw(here, 3, 0), wr::Piece::from_raw(here + 7, 5, 0)];
                let to = base.slice(700, 16).unwrap().write();
                let pieces: Vec<_> = (0..3).map(|i| piece(i, 1)).collect();
                let mut slots = SendSlots::<4>::new();
                // SAFETY: as above; the inline bytes are within the capacity.
                unsafe {
                    let list = |i: usize| {
                        let at = base.slice(720 + 4 * i as u64, 4).unwrap().write();
                        wr::RdmaWrite::new(wr::SgeList::new(i as u64, &pieces[..=i]), at)
                    };
                    qp.post_send_list_unchecked(&mut slots, 3, list).unwrap();
                    let write = wr::RdmaWrite::new(wr::SgeList::new(3, &parts).inline(), to);
                    qp.post_send_unchecked(write.signaled()).unwrap();
                }
                assert_eq!(poll(&mut cq, 1)[0].0, 3);
                let mut there = [0; 32];
                region.read_at(700, &mut there).unwrap();
                assert_eq!(&there[..8], b"on stack");
                assert_eq!(&there[20..32], b"0\x00\x00\x0001\x00\x00012\x00");
            });
        }
    };
}

elements_at_run_time! { the_number_of_elements_is_known_at_run_time, Plain }
elements_at_run_time! { the_number_of_elements_of_a_session_is_known_at_run_time, Session }

/// A work request that was filled once has the wr_id and the flags of each post.
macro_rules! prepared {
    ($name:ident, $profile:ty) => {
        #[test]
        fn $name() {
            on_each!($profile, |qp, cq, region| {
                let to = region.remote().slice(64, 4).unwrap().write();
                let mut unsignaled = wr::RdmaWrite::new(wr::Placeholder, to).prepare();
                let mut signaled = wr::RdmaWrite::new(wr::Placeholder, to).signaled().prepare();
                let sge = |wr_id: u64| {
                    let at = wr_id as usize;
                    wr::Sge::new(wr_id, [wr::Piece::new(&region, at..at + 4).unwrap()])
                };
                // SAFETY: the region lives to the end of the test, its bytes are accessed only by
                // atomics, and the completion queue has room.
                unsafe {
                    qp.post_prepared_unchecked(&mut unsignaled, sge(0)).unwrap();
                    qp.post_prepared_unchecked(&mut signaled, sge(1).inline()).unwrap();
                    qp.post_prepared_unchecked(&mut signaled, sge(2)).unwrap();
                }
                assert_eq!(poll(&mut cq, 2).iter().map(|it| it.0).collect::<Vec<_>>(), [1, 2]);
                let mut there = [0; 4];
                region.read_at(64, &mut there).unwrap();
                assert_eq!(&there, b"2345");
            });
        }
    };
}

prepared! { prepared_work_requests_carry_the_callers_wr_ids, Plain }
prepared! { prepared_work_requests_go_in_sessions, Session }
