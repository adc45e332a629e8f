//! Atomics on eight bytes, which return the old value.

use std::sync::atomic::Ordering::SeqCst;

use proverbs::completion::WcOpcode;
use proverbs::prelude::*;

use crate::support::*;

/// Posts one atomic and returns the old value.
fn old_value(p: &mut Pair<Rc>, opcode: WcOpcode) -> u64 {
    let mut entry = None;
    until(&p.dev, "the atomic's completion", || match p.ca.poll_one().unwrap() {
        Some(completion) => {
            assert_eq!((completion.status(), completion.opcode()), (Ok(()), Some(opcode)));
            let Outcome::Sent(sent) = completion.outcome() else { panic!("a send") };
            assert_eq!(sent.opcode, opcode);
            entry = sent.entry;
            true
        }
        None => false,
    });
    let mut buf = entry.unwrap();
    buf.set_len(8);
    u64::from_ne_bytes(buf[..].try_into().unwrap())
}

/// Proves R4.10.
#[test]
fn compare_and_swap_swaps_only_what_it_expects() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAtomic>(24).unwrap();
    let cell = region.cell(8).unwrap();
    cell.store(5, SeqCst);
    let there = region.remote().atomic(8).unwrap();
    let mut swap = |compare, swap| {
        let operands = wr::CompareSwap { compare, swap };
        p.a.post_send(wr::CmpAndSwp::new(poisoned(&p.pool), there, operands)).unwrap();
        old_value(&mut p, WcOpcode::CompSwap)
    };
    assert_eq!(swap(6, 7), 5);
    assert_eq!(cell.load(SeqCst), 5);
    assert_eq!(swap(5, u64::MAX), 5);
    assert_eq!(cell.load(SeqCst), u64::MAX);
    assert_eq!(swap(u64::MAX, 0), u64::MAX);
    assert_eq!(cell.load(SeqCst), 0);
    // The neighbouring cells are unchanged.
    assert_eq!(region.cell(0).unwrap().load(SeqCst), 0);
    assert_eq!(region.cell(16).unwrap().load(SeqCst), 0);
}

#[test]
fn fetch_and_add_wraps_and_counts_in_order() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAll>(8).unwrap();
    let cell = region.cell(0).unwrap();
    cell.store(u64::MAX, SeqCst);
    let there = region.remote().atomic(0).unwrap();
    let mut add = |n| {
        p.a.post_send(wr::FetchAndAdd::new(poisoned(&p.pool), there, n)).unwrap();
        old_value(&mut p, WcOpcode::FetchAdd)
    };
    assert_eq!([add(2), add(3), add(u64::MAX)], [u64::MAX, 1, 4]);
    assert_eq!(cell.load(SeqCst), 3);
}

/// Proves R4.9.
#[test]
fn concurrent_atomics_from_both_ends_lose_no_increment() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAtomic>(8).unwrap();
    let there = region.remote().atomic(0).unwrap();
    let rounds = if cfg!(miri) { 2 } else { 20 };
    for _ in 0..rounds {
        for _ in 0..4 {
            p.a.post_send(wr::FetchAndAdd::new(p.pool.take().unwrap(), there, 1)).unwrap();
            p.b.post_send(wr::FetchAndAdd::new(p.pool.take().unwrap(), there, 1)).unwrap();
        }
        poll(&p.dev, &mut p.ca, 4);
        poll(&p.dev, &mut p.cb, 4);
    }
    assert_eq!(region.cell(0).unwrap().load(SeqCst), rounds * 8);
}

/// Proves R4.1, R4.11.
#[test]
fn a_result_takes_exactly_eight_bytes() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAtomic>(8).unwrap();
    region.cell(0).unwrap().store(77, SeqCst);
    let mut sink = poisoned(&p.pool);
    sink.set_len(3);
    p.a.post_send(wr::FetchAndAdd::new(sink, region.remote().atomic(0).unwrap(), 0)).unwrap();
    let mut buf = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    buf.set_len(8);
    holds(buf, &77u64.to_ne_bytes());
}

/// Proves R4.2.
#[test]
fn cells_are_aligned_and_within_bounds() {
    fails_on!(Iwarp, "R24.4");
    let p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAtomic>(16).unwrap();
    let remote = region.remote();
    let error = remote.atomic(4).unwrap_err();
    assert!(error.misaligned);
    let text = "offset 4 is not 8-byte aligned: an atomic needs an address that is a multiple of 8";
    assert_eq!(error.to_string(), text);
    let error = remote.atomic(16).unwrap_err();
    assert_eq!(error.to_string(), "8 bytes at offset 16 exceed the region of 16 bytes");
    assert!(remote.atomic(8).is_ok());
    assert!(remote.atomic(u64::MAX - 7).is_err());
    assert!(region.cell(12).is_err());
}
