//! Failures and their statuses.

use super::*;
use ibv_qp_state::{IBV_QPS_ERR, IBV_QPS_RTS, IBV_QPS_SQE};
use ibv_wc_status::*;
use ibv_wr_opcode::*;

/// The status of one send of `a`, and the states of both queue pairs after it.
fn fate(a: &End, b: &End, wr: &SendWr) -> (u32, u32, u32) {
    assert_eq!(a.post_send(wr), 0);
    (a.wait().status, a.state(), b.state())
}

#[test]
fn no_receive_uses_up_the_retries() {
    let (a, b) = pair(&RC);
    let wr = SendWr::send(1, &[]);
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_RNR_RETRY_EXC_ERR, IBV_QPS_ERR, IBV_QPS_RTS));
}

#[test]
fn a_receive_in_time_ends_the_wait() {
    let (a, b) = pair(&Wish { rnr_retry: 7, ..RC });
    assert_eq!(a.post_send(&SendWr::send(1, &[])), 0);
    for _ in 0..300 {
        assert!(a.poll().is_empty());
    }
    assert_eq!(b.post_recv(2, &[]), 0);
    assert_eq!((a.polled(), b.polled()), (vec![(1, 0)], vec![(2, 0)]));
}

#[test]
fn a_silent_peer_uses_up_the_retries() {
    let (a, b) = pair(&RC);
    assert_eq!(b.go(IBV_QPS_ERR), 0);
    let wr = SendWr::send(1, &[]);
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_RETRY_EXC_ERR, IBV_QPS_ERR, IBV_QPS_ERR));
}

/// Proves R8.7.
#[test]
fn packet_numbers_must_agree() {
    let (a, b) = pair(&Wish { sq_psn: 8, ..RC });
    let wr = SendWr::send(1, &[]);
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_RETRY_EXC_ERR, IBV_QPS_ERR, IBV_QPS_RTS));
}

#[test]
fn without_timeout_a_lost_send_stays_lost() {
    let (a, b) = pair(&Wish { timeout: 0, ..RC });
    assert_eq!(b.go(IBV_QPS_ERR), 0);
    assert_eq!(a.post_send(&SendWr::send(1, &[])), 0);
    for _ in 0..300 {
        assert!(a.poll().is_empty());
    }
    assert_eq!(a.go(IBV_QPS_ERR), 0);
    assert_eq!(a.polled(), [(1, IBV_WC_WR_FLUSH_ERR)]);
}

#[test]
fn without_initiator_depth_a_read_never_starts() {
    let (a, b) = pair(&Wish { initiator: 0, ..RC });
    let read = SendWr::new(1, IBV_WR_RDMA_READ, &[a.sge(0, 8)]).to(&b, 0);
    let write = SendWr::new(2, IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]).to(&b, 0);
    assert_eq!(a.post_sends(&[read, write]), (0, None));
    for _ in 0..300 {
        assert!(a.poll().is_empty());
    }
    assert_eq!(a.go(IBV_QPS_ERR), 0);
    assert_eq!(a.polled(), [(1, IBV_WC_WR_FLUSH_ERR), (2, IBV_WC_WR_FLUSH_ERR)]);
}

#[test]
fn a_receive_too_short() {
    let (a, b) = pair(&RC);
    assert_eq!(b.post_recv(3, &[b.sge(0, 7)]), 0);
    let wr = SendWr::send(1, &[a.sge(0, 8)]);
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_REM_INV_REQ_ERR, IBV_QPS_ERR, IBV_QPS_ERR));
    assert_eq!(b.polled(), [(3, IBV_WC_LOC_LEN_ERR)]);

    let (a, b) = pair(&UC);
    assert_eq!(b.post_recv(3, &[b.sge(0, 7)]), 0);
    let wr = SendWr::send(1, &[a.sge(0, 8)]);
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_SUCCESS, IBV_QPS_RTS, IBV_QPS_RTS));
    assert!(b.polled().is_empty(), "dropped; the next message gets the receive");
}

fn with_key(end: &End, lkey: u32) -> ibv_sge {
    ibv_sge { lkey, ..end.sge(0, 8) }
}

fn key_of(end: &End) -> u32 {
    end.sge(0, 8).lkey
}

#[test]
fn keys_ranges_and_rights() {
    type Element = fn(&End, &End) -> ibv_sge;
    let local: [Element; 4] = [
        |a, _| with_key(a, 1),
        |a, _| a.sge(MEMORY - 4, 8),
        |a, b| with_key(a, key_of(b)),
        |_, b| with_key(b, key_of(b)),
    ];
    for sge in local {
        let (a, b) = pair(&RC);
        assert_eq!(
            fate(&a, &b, &SendWr::send(1, &[sge(&a, &b)])),
            (IBV_WC_LOC_PROT_ERR, IBV_QPS_ERR, IBV_QPS_RTS)
        );
        let (a, b) = pair(&UC);
        assert_eq!(
            fate(&a, &b, &SendWr::send(1, &[sge(&a, &b)])),
            (IBV_WC_LOC_PROT_ERR, IBV_QPS_SQE, IBV_QPS_RTS)
        );
    }
    let write = |a: &End| SendWr::new(1, IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]);
    let (a, b) = pair(&RC);
    let beyond = write(&a).to(&b, MEMORY - 4);
    assert_eq!(fate(&a, &b, &beyond), (IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR, IBV_QPS_ERR));
    assert!(b.polled().is_empty());
    let (a, b) = pair(&Wish { rights: 1 | 4, ..RC });
    let wr = write(&a).to(&b, 0);
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR, IBV_QPS_ERR));
    let (a, b) = pair(&Wish { qp_rights: 1 | 4, ..RC });
    let wr = write(&a).to(&b, 0);
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_REM_INV_REQ_ERR, IBV_QPS_ERR, IBV_QPS_ERR));
    let (a, b) = pair(&Wish { rights: 0, ..RC });
    assert_eq!(b.post_recv(3, &[b.sge(0, 8)]), 0);
    let wr = SendWr::send(1, &[a.sge(0, 8)]);
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_REM_OP_ERR, IBV_QPS_ERR, IBV_QPS_ERR));
    assert_eq!(b.polled(), [(3, IBV_WC_LOC_PROT_ERR)]);
}

#[test]
fn an_error_flushes_later_requests() {
    let (a, b) = pair(&RC);
    assert_eq!(a.post_recv(8, &[]), 0);
    let good = SendWr::new(0, IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]).to(&b, 0).flags(0);
    let bad = SendWr { wr_id: 1, remote: Some((1, 2)), ..good.clone() };
    let list = [good.clone(), bad, SendWr { wr_id: 2, ..good.clone() }];
    assert_eq!(a.post_sends(&list), (0, None));
    let flushed = IBV_WC_WR_FLUSH_ERR;
    assert_eq!(a.polled(), [(1, IBV_WC_REM_ACCESS_ERR), (2, flushed), (8, flushed)]);
    assert_eq!((a.post_send(&SendWr { wr_id: 3, ..good }), a.post_recv(9, &[])), (0, 0));
    assert_eq!(a.polled(), [(3, flushed), (9, flushed)]);
}

/// Proves R11.5.
#[test]
fn a_deregistered_region_is_inaccessible() {
    let (a, mut b) = pair(&RC);
    let wr = SendWr::new(1, IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]).to(&b, 0);
    assert_eq!(unsafe { (LOOPBACK.dereg_mr)(b.mr) }, Ok(()));
    b.mr = ptr::null_mut();
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR, IBV_QPS_ERR));
}

#[test]
fn a_read_needs_local_write() {
    let (a, b) = pair(&Wish { rights: 4, ..RC });
    let wr = SendWr::new(1, IBV_WR_RDMA_READ, &[a.sge(0, 8)]).to(&b, 0);
    assert_eq!(fate(&a, &b, &wr), (IBV_WC_LOC_PROT_ERR, IBV_QPS_ERR, IBV_QPS_RTS));
}
