//! Differences between personalities, as a program sees them that looks at every field.

use super::datagram::{Handle, datagram};
use super::*;
use crate::{Fault, Personality, Script};
use ibv_qp_state::IBV_QPS_RESET;
use ibv_wc_flags as flag;

fn on(personality: Personality, wish: &Wish) -> (Fabric, End, End) {
    let fabric = Fabric::with(personality);
    let (a, b) = pair_on(&fabric, wish);
    (fabric, a, b)
}

/// The completions of a message with immediate: of its send, and of its receive.
fn with_imm(personality: Personality) -> (MaybeUninit<ibv_wc>, MaybeUninit<ibv_wc>) {
    let (_, a, b) = on(personality, &RC);
    assert_eq!(b.post_recv(1, &[]), 0);
    let wr = SendWr::new(2, ibv_wr_opcode::IBV_WR_SEND_WITH_IMM, &[]).imm(5);
    assert_eq!(a.post_send(&wr), 0);
    (a.poll_raw().remove(0), b.poll_raw().remove(0))
}

/// A field of a completion that was written.
macro_rules! field {
    ($wc:expr, $field:ident) => {
        unsafe { (&raw const (*$wc.as_ptr()).$field).read() }
    };
}

fn imm_of(wc: &MaybeUninit<ibv_wc>) -> u32 {
    let imm = field!(wc, imm_data_invalidated_rkey_union);
    unsafe { imm.imm_data }
}

#[test]
fn a_send_completion_may_have_the_flag_of_an_immediate() {
    for (personality, told) in
        [(Personality::Plain, false), (Personality::Rxe, true), (Personality::Mlx5, true)]
    {
        let (sent, received) = with_imm(personality);
        let has = field!(sent, wc_flags) & flag::IBV_WC_WITH_IMM.0 != 0;
        assert_eq!(has, told, "{personality}");
        assert_ne!(field!(received, wc_flags) & flag::IBV_WC_WITH_IMM.0, 0, "{personality}");
        assert_eq!(imm_of(&received), 5, "{personality}");
    }
}

/// Under Miri the fields cannot be read.
#[cfg(not(miri))]
#[test]
fn fields_without_a_promise_are_not_written() {
    const GARBAGE: u32 = 0xb7b7_b7b7;
    let (sent, received) = with_imm(Personality::Mlx5);
    assert_eq!(imm_of(&sent), GARBAGE);
    assert_eq!((field!(sent, vendor_err), field!(sent, byte_len)), (GARBAGE, GARBAGE));
    assert_eq!((field!(received, vendor_err), field!(received, byte_len)), (GARBAGE, 0));
    // The opcode of a failure is undefined.
    let (_, a, _b) = on(Personality::Mlx5, &RC);
    assert_eq!((a.go(ibv_qp_state::IBV_QPS_ERR), a.post_send(&SendWr::send(1, &[]))), (0, 0));
    let failed = a.poll_raw().remove(0);
    assert_eq!((field!(failed, opcode), field!(failed, wc_flags)), (GARBAGE, 0));
    assert_ne!(field!(failed, vendor_err), GARBAGE);
}

#[test]
fn an_rxe_receive_has_the_flag_of_a_grh() {
    for (personality, told) in [(Personality::Plain, false), (Personality::Rxe, true)] {
        let (_, received) = with_imm(personality);
        assert_eq!(field!(received, wc_flags) & flag::IBV_WC_GRH.0 != 0, told);
    }
}

/// How many completions are left after a queue pair with two was destroyed, or reset.
fn left(personality: Personality, wish: &Wish, destroy: bool) -> usize {
    let (_, a, mut b) = on(personality, wish);
    for i in 0..2 {
        assert_eq!(b.post_recv(i, &[]), 0);
        assert_eq!(a.post_send(&SendWr::send(i, &[])), 0);
    }
    assert_eq!(a.poll_raw().len(), 2);
    if destroy {
        let qp = std::mem::replace(&mut b.qp, ptr::null_mut());
        assert_eq!(unsafe { (LOOPBACK.destroy_qp)(qp) }, Ok(()));
    } else {
        assert_eq!(b.go(IBV_QPS_RESET), 0);
    }
    let left = b.poll_raw().len();
    if wish.srq {
        // Either way the slots are free again.
        for i in 0..wish.depth {
            assert_eq!(b.post_recv(i.into(), &[]), 0, "receive {i} of {personality}");
        }
    }
    left
}

#[test]
fn a_destroyed_queue_pair_may_remove_its_completions() {
    for wish in [RC, Wish { srq: true, ..RC }] {
        for destroy in [true, false] {
            assert_eq!(left(Personality::Plain, &wish, destroy), 2);
            assert_eq!(left(Personality::Rxe, &wish, destroy), 2);
            assert_eq!(left(Personality::Mlx5, &wish, destroy), 0);
        }
    }
}

/// The completions of other queue pairs stay.
#[test]
fn completions_of_other_queue_pairs_stay() {
    let fabric = Fabric::with(Personality::Mlx5);
    let wish = Wish { cqe: 8, ..RC };
    let (a, b) = pair_on(&fabric, &wish);
    for i in 0..3 {
        assert_eq!((b.post_recv(i, &[]), a.post_send(&SendWr::send(i, &[]))), (0, 0));
    }
    // The receives are from `b`'s queue, the sends from `a`'s.
    assert_eq!(b.go(IBV_QPS_RESET), 0);
    assert_eq!((a.poll_raw().len(), b.poll_raw().len()), (3, 0));
}

#[test]
fn receives_hold_their_slots_until_they_are_polled() {
    for (personality, code) in [(Personality::Plain, 0), (Personality::Mlx5, libc::ENOMEM)] {
        for srq in [false, true] {
            let wish = Wish { depth: 2, srq, ..RC };
            let (_, a, b) = on(personality, &wish);
            for i in 0..2 {
                assert_eq!((b.post_recv(i, &[]), a.post_send(&SendWr::send(i, &[]))), (0, 0));
            }
            assert_eq!(a.poll_raw().len(), 2); // both have arrived
            assert_eq!(b.post_recv(2, &[]), code, "{personality}");
            assert_eq!(b.poll_raw().len(), 2);
            assert_eq!(b.post_recv(3, &[]), 0);
        }
    }
}

#[test]
fn a_poll_may_fail_after_writing_completions() {
    let (fabric, a, b) = on(Personality::Mlx5, &RC);
    for i in 0..3 {
        assert_eq!((b.post_recv(i, &[]), a.post_send(&SendWr::send(i, &[]))), (0, 0));
    }
    assert_eq!(a.poll_raw().len(), 3);
    fabric.inject(Script::default().with(Fault::FailPoll.nth(2)));
    let mut wcs = [const { MaybeUninit::<ibv_wc>::uninit() }; 4];
    let poll = unsafe { (*b.context).ops.poll_cq }.unwrap();
    assert_eq!(unsafe { poll(b.cq, 4, wcs.as_mut_ptr().cast()) }, -2);
    assert_eq!([field!(wcs[0], wr_id), field!(wcs[1], wr_id)], [0, 1]);
    // The two are lost; the queue continues.
    assert_eq!(b.poll_raw().iter().map(|wc| field!(wc, wr_id)).collect::<Vec<_>>(), [2]);
}

/// The 20 bytes before the IPv4 header of two datagrams.
fn before_ipv4(personality: Personality) -> [Vec<u8>; 2] {
    let (_, a, b) = on(personality, &UD);
    let ah = Handle::new(&a, &b, 1);
    [0, 1].map(|i| {
        assert_eq!(
            (b.post_recv(i, &[b.sge(0, 64)]), a.post_send(&datagram(&ah, &b, QKEY, a.sge(0, 8)))),
            (0, 0)
        );
        a.poll_raw();
        assert_eq!(b.poll_raw().len(), 1);
        assert_eq!(b.read(20, 1), [0x45]);
        b.read(0, 20)
    })
}

#[test]
fn bytes_before_an_ipv4_header_are_undefined() {
    assert_eq!(before_ipv4(Personality::Plain), [vec![0; 20], vec![0; 20]]);
    assert_eq!(before_ipv4(Personality::Rxe), [vec![0; 20], vec![0; 20]]);
    let [one, other] = before_ipv4(Personality::Mlx5);
    assert!(one != other && one != [0; 20]);
    assert!([&one, &other].into_iter().any(|bytes| bytes[0] >> 4 == 6), "one looks like IPv6");
}

/// The worst personality's choices in one program: how many completions are left, and the undefined
/// bytes of its headers.
fn tale(seed: u64) -> (usize, [Vec<u8>; 2]) {
    let worst = Personality::worst(seed);
    (left(worst, &RC, true), before_ipv4(worst))
}

#[test]
fn the_worst_personality_is_drawn_from_its_seed() {
    assert_eq!(tale(3), tale(3));
    let all: Vec<_> = (0..16).map(tale).collect();
    for left in [0, 2] {
        assert!(all.iter().any(|tale| tale.0 == left), "some keep completions, some do not");
    }
    assert!(
        all.iter().any(|tale| tale.1[0] == [0; 20]) && all.iter().any(|tale| tale.1[0] != [0; 20])
    );
}
