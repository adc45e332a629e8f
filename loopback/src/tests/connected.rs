//! Ordinary operations on RC and UC.

use super::*;
use ibv_wc_opcode::*;
use ibv_wr_opcode::*;

#[test]
fn send_and_receive() {
    for wish in [RC, UC] {
        let (a, b) = pair(&wish);
        a.write(0, b"hello, world");
        assert_eq!(b.post_recv(1, &[b.sge(100, 5), b.sge(200, 100)]), 0);
        assert_eq!(a.post_send(&SendWr::send(2, &[a.sge(0, 12)])), 0);
        assert_eq!(b.read(100, 5), [0; 5], "nothing happens during the post");
        let wc = b.wait();
        assert_eq!((wc.wr_id, wc.status, wc.opcode, wc.byte_len), (1, 0, IBV_WC_RECV, 12));
        assert_eq!((wc.qp_num, wc.wc_flags), (b.number(), 0));
        assert_eq!(b.read(100, 5), b"hello");
        assert_eq!(b.read(200, 8), b", world\0");
        let wc = a.wait();
        assert_eq!((wc.wr_id, wc.status, wc.opcode), (2, 0, IBV_WC_SEND));
    }
}

#[test]
fn inline_data_is_free_after_the_post() {
    let (a, b) = pair(&RC);
    let mut text = *b"inline";
    assert_eq!(b.post_recv(1, &[b.sge(0, 64)]), 0);
    let sge = ibv_sge { addr: text.as_mut_ptr().expose_provenance() as u64, length: 6, lkey: 99 };
    let wr = SendWr::new(2, IBV_WR_SEND_WITH_IMM, &[sge]).flags(SIGNALED | INLINE).imm(42);
    assert_eq!(a.post_send(&wr), 0);
    text.fill(b'x');
    let wc = b.wait();
    assert_eq!((wc.byte_len, imm(&wc)), (6, Some(42)));
    assert_eq!(b.read(0, 6), b"inline");
}

#[test]
fn writes_with_and_without_immediate() {
    for wish in [RC, UC] {
        let (a, b) = pair(&wish);
        a.write(3, b"0123456789abcdef!");
        let quiet = SendWr::new(1, IBV_WR_RDMA_WRITE, &[a.sge(3, 17)]).to(&b, 13).flags(0);
        let loud = SendWr::new(2, IBV_WR_RDMA_WRITE_WITH_IMM, &[a.sge(3, 8)]).to(&b, 64).imm(5);
        assert_eq!(b.post_recv(7, &[]), 0);
        assert_eq!(a.post_sends(&[quiet, loud]), (0, None));
        assert_eq!(a.polled(), [(2, 0)]);
        let wc = b.wait();
        assert_eq!((wc.opcode, wc.byte_len), (IBV_WC_RECV_RDMA_WITH_IMM, 8));
        assert_eq!((wc.wr_id, imm(&wc)), (7, Some(5)));
        assert_eq!(b.read(13, 17), b"0123456789abcdef!");
        assert_eq!(b.read(64, 8), b"01234567");
    }
}

#[test]
fn read() {
    let (a, b) = pair(&RC);
    b.write(40, b"from afar");
    let wr = SendWr::new(1, IBV_WR_RDMA_READ, &[a.sge(0, 4), a.sge(10, 5)]).to(&b, 40);
    assert_eq!(a.post_send(&wr), 0);
    let wc = a.wait();
    assert_eq!((wc.status, wc.opcode, wc.byte_len), (0, IBV_WC_RDMA_READ, 9));
    assert_eq!(a.read(0, 4), b"from");
    assert_eq!(a.read(10, 5), b" afar");
    assert!(b.poll().is_empty());
}

#[test]
fn atomics() {
    let (a, b) = pair(&RC);
    b.write(8, &40u64.to_ne_bytes());
    let add = SendWr::new(1, IBV_WR_ATOMIC_FETCH_AND_ADD, &[a.sge(0, 8)]).to(&b, 8).operands(2, 0);
    let miss = SendWr::new(2, IBV_WR_ATOMIC_CMP_AND_SWP, &[a.sge(8, 8)]).to(&b, 8).operands(1, 9);
    let hit = SendWr::new(3, IBV_WR_ATOMIC_CMP_AND_SWP, &[a.sge(16, 8)]).to(&b, 8).operands(42, 9);
    assert_eq!(a.post_sends(&[add, miss, hit]), (0, None));
    assert_eq!(a.polled(), [(1, 0), (2, 0), (3, 0)]);
    let results: Vec<_> = [40u64, 42, 42].iter().flat_map(|old| old.to_ne_bytes()).collect();
    assert_eq!(a.read(0, 24), results);
    assert_eq!(b.read(8, 8), 9u64.to_ne_bytes());
}

#[test]
fn zero_bytes_and_zero_length_elements() {
    let (a, b) = pair(&RC);
    let bogus = ibv_sge { addr: 1, length: 0, lkey: 0xdead };
    assert_eq!(b.post_recv(1, &[]), 0);
    assert_eq!(b.post_recv(2, &[bogus, b.sge(0, 1)]), 0);
    a.write(0, b"z");
    let empty = SendWr::send(3, &[]);
    let one = SendWr::send(4, &[bogus, a.sge(0, 1)]);
    // Nothing is touched, so nothing is checked (R3.4).
    let write = SendWr { remote: Some((1, 2)), ..SendWr::new(5, IBV_WR_RDMA_WRITE, &[]) };
    assert_eq!(a.post_sends(&[empty, one, write]), (0, None));
    assert_eq!(a.polled(), [(3, 0), (4, 0), (5, 0)]);
    assert_eq!(b.polled(), [(1, 0), (2, 0)]);
    assert_eq!(b.read(0, 1), b"z");
}

#[test]
fn a_queue_pair_may_talk_to_itself() {
    let fabric = Fabric::new();
    let a = End::new(&fabric, &RC);
    assert_eq!((a.init(&RC), a.rtr(&RC, &a), a.rts(&RC)), (0, 0, 0));
    assert_eq!(a.post_recv(1, &[a.sge(64, 8)]), 0);
    a.write(0, b"echo");
    assert_eq!(a.post_send(&SendWr::send(2, &[a.sge(0, 4)])), 0);
    assert_eq!(a.polled(), [(1, 0), (2, 0)]);
    assert_eq!(a.read(64, 4), b"echo");
}

#[test]
fn receives_of_an_srq() {
    let (a, b) = pair(&Wish { srq: true, ..RC });
    for wr_id in 1..=3 {
        assert_eq!(b.post_recv(wr_id, &[b.sge(0, 8)]), 0);
    }
    assert_eq!(a.post_sends(&[SendWr::send(4, &[]), SendWr::send(5, &[])]), (0, None));
    assert_eq!(b.polled(), [(1, 0), (2, 0)]);
    assert_eq!(unsafe { (LOOPBACK.destroy_srq)(b.srq) }, Err(libc::EBUSY));
    assert_eq!(b.go(ibv_qp_state::IBV_QPS_ERR), 0);
    assert!(b.polled().is_empty(), "the SRQ's receives are not flushed");
}

/// Proves R6.12.
#[test]
fn open_memory_may_be_watched_from_another_thread() {
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
    let (a, b) = pair(&RC);
    a.write(0, &77u64.to_ne_bytes());
    let flag = AtomicPtr::new(b.memory.wrapping_add(1));
    let watcher = std::thread::spawn(move || {
        let flag = unsafe { AtomicU64::from_ptr(flag.into_inner()) };
        while flag.load(Ordering::Relaxed) != 77 {
            std::thread::yield_now();
        }
    });
    assert_eq!(a.post_send(&SendWr::new(1, IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]).to(&b, 8)), 0);
    assert_eq!(a.wait().status, 0);
    watcher.join().unwrap();
}
