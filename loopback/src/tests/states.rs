//! States: legal transitions, attributes and posts.

use super::*;
use ibv_qp_state::*;
use ibv_wc_status::IBV_WC_WR_FLUSH_ERR;

const ALL: [ibv_qp_state::Type; 6] =
    [IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR];

/// A single end, moved to a state.
fn end_in(wish: &Wish, state: ibv_qp_state::Type) -> End {
    let end = End::new(&Fabric::new(), wish);
    if state != IBV_QPS_RESET {
        assert_eq!(end.init(wish), 0);
    }
    if matches!(state, IBV_QPS_RTR | IBV_QPS_RTS | IBV_QPS_SQD) {
        assert_eq!(end.rtr(wish, &end), 0);
    }
    if matches!(state, IBV_QPS_RTS | IBV_QPS_SQD) {
        assert_eq!(end.rts(wish), 0);
    }
    if matches!(state, IBV_QPS_SQD | IBV_QPS_ERR) {
        assert_eq!(end.go(state), 0);
    }
    end
}

#[test]
fn transitions_without_attributes() {
    let legal: &[(_, &[_])] = &[
        (IBV_QPS_RESET, &[IBV_QPS_RESET]),
        (IBV_QPS_INIT, &[IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR]),
        (IBV_QPS_RTR, &[IBV_QPS_RESET, IBV_QPS_ERR]),
        (IBV_QPS_RTS, &[IBV_QPS_RESET, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR]),
        (IBV_QPS_SQD, &[IBV_QPS_RESET, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR]),
        (IBV_QPS_ERR, &[IBV_QPS_RESET, IBV_QPS_ERR]),
    ];
    for wish in [RC, UC, UD] {
        for &(from, legal) in legal {
            for to in ALL {
                // UD needs no attributes for RTR.
                let ud = wish.qp_type == UD.qp_type && (from, to) == (IBV_QPS_INIT, IBV_QPS_RTR);
                let ok = ud || legal.contains(&to);
                let end = end_in(&wish, from);
                assert_eq!(end.go(to), if ok { 0 } else { libc::EINVAL }, "{from} to {to}");
                let now = if ok { to } else { from };
                assert_eq!((end.state(), unsafe { (*end.qp).state }), (now, now));
            }
        }
    }
}

#[test]
fn values_and_foreign_attributes_are_refused() {
    let end = end_in(&RC, IBV_QPS_RTR);
    let full = 1 | 1 << 16 | 512 | 1024 | 2048 | 8192;
    let modify = |mask: u32, change: fn(*mut ibv_qp_attr)| {
        end.modify(mask, |attr| unsafe {
            (*attr).qp_state = IBV_QPS_RTS;
            (*attr).timeout = 14;
            (*attr).retry_cnt = 7;
            (*attr).rnr_retry = 7;
            (*attr).sq_psn = 0xff00_0001;
            (*attr).max_rd_atomic = 16;
            (*attr).cur_qp_state = IBV_QPS_RTR;
            (*attr).qkey = 1;
            change(attr)
        })
    };
    assert_eq!(modify(full, |attr| unsafe { (*attr).timeout = 32 }), libc::EINVAL);
    assert_eq!(modify(full, |attr| unsafe { (*attr).retry_cnt = 8 }), libc::EINVAL);
    assert_eq!(modify(full, |attr| unsafe { (*attr).rnr_retry = 8 }), libc::EINVAL);
    assert_eq!(modify(full, |attr| unsafe { (*attr).max_rd_atomic = 17 }), libc::EINVAL);
    assert_eq!(modify(full | 64, |_| ()), libc::EINVAL, "a Q_Key");
    assert_eq!(modify(full & !512, |_| ()), libc::EINVAL, "no timeout");
    assert_eq!(
        modify(full | 2, |attr| unsafe { (*attr).cur_qp_state = IBV_QPS_INIT }),
        libc::EINVAL
    );
    assert_eq!(end.state(), IBV_QPS_RTR);
    assert_eq!(modify(full | 2, |_| ()), 0);
    let (attr, init) = unsafe { (LOOPBACK.query_qp)(end.qp, full as i32) }.unwrap();
    assert_eq!((attr.sq_psn, attr.rq_psn, attr.dest_qp_num), (1, 7, end.number()));
    assert_eq!((attr.path_mtu, attr.timeout, attr.ah_attr.grh.sgid_index), (3, 14, 1));
    assert_eq!((init.cap.max_send_wr, init.cap.max_inline_data), (8, 64));
    assert!(init.send_cq == end.cq);
}

#[test]
fn posts_by_state() {
    for (state, send, recv) in [
        (IBV_QPS_RESET, libc::EINVAL, libc::EINVAL),
        (IBV_QPS_INIT, libc::EINVAL, 0),
        (IBV_QPS_RTR, libc::EINVAL, 0),
        (IBV_QPS_RTS, 0, 0),
        (IBV_QPS_SQD, 0, 0),
        (IBV_QPS_ERR, 0, 0),
    ] {
        let end = end_in(&RC, state);
        assert_eq!(end.post_recv(1, &[]), recv);
        assert_eq!(end.post_sends(&[SendWr::send(2, &[])]), (send, (send != 0).then_some(0)));
        let done = match state {
            IBV_QPS_RTS => vec![(1, 0), (2, 0)],
            IBV_QPS_ERR => vec![(2, IBV_WC_WR_FLUSH_ERR), (1, IBV_WC_WR_FLUSH_ERR)],
            _ => vec![],
        };
        assert_eq!(end.polled(), done);
        if state == IBV_QPS_SQD {
            assert_eq!(end.go(IBV_QPS_RTS), 0);
            assert_eq!(end.polled(), [(1, 0), (2, 0)], "held until then");
        }
    }
}

#[test]
fn reset_empties_the_queues_and_leaves_completions() {
    let (a, b) = pair(&Wish { depth: 2, ..RC });
    let wr = SendWr::new(1, ibv_wr_opcode::IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]).to(&b, 0);
    assert_eq!(a.post_sends(&[wr.clone(), wr.clone()]), (0, None));
    assert_eq!(a.post_recv(9, &[]), 0);
    assert_eq!(a.go(IBV_QPS_RESET), 0);
    assert_eq!((a.init(&RC), a.rtr(&RC, &b), a.rts(&RC)), (0, 0, 0));
    assert_eq!(b.go(IBV_QPS_RESET), 0);
    assert_eq!((b.init(&RC), b.rtr(&RC, &a), b.rts(&RC)), (0, 0, 0));
    assert_eq!(a.post_sends(&[wr.clone(), wr.clone()]), (0, None));
    assert_eq!(a.polled().len(), 4, "two from before the reset and two from after it");
    assert_eq!(a.post_sends(&[wr.clone(), wr.clone(), wr]), (libc::ENOMEM, Some(2)));
}

#[test]
fn children_are_destroyed_before_parents() {
    let end = end_in(&RC, IBV_QPS_RESET);
    assert_eq!(unsafe { (LOOPBACK.destroy_cq)(end.cq) }, Err(libc::EBUSY));
    assert_eq!(unsafe { (LOOPBACK.dealloc_pd)(end.pd) }, Err(libc::EBUSY));
    assert_eq!(unsafe { (LOOPBACK.close_device)(end.context) }, Err(libc::EBUSY));
}

#[test]
fn completions_outlive_their_queue_pair() {
    let (mut a, b) = pair(&RC);
    let wr = SendWr::new(1, ibv_wr_opcode::IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]).to(&b, 0);
    assert_eq!(a.post_send(&wr), 0);
    assert_eq!(unsafe { (LOOPBACK.destroy_qp)(a.qp) }, Ok(()));
    a.qp = ptr::null_mut();
    assert_eq!(a.polled(), [(1, 0)]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "a region must have at least one byte"]
fn a_region_of_no_bytes_is_refused() {
    let end = end_in(&RC, IBV_QPS_RESET);
    let _ = unsafe { (LOOPBACK.reg_mr)(end.pd, end.memory.cast(), 0, 0, Holds::Open) };
}

#[test]
fn regions_are_checked() {
    let end = end_in(&RC, IBV_QPS_RESET);
    let register = |length, access| {
        unsafe { (LOOPBACK.reg_mr)(end.pd, end.memory.cast(), length, access, Holds::Open) }.err()
    };
    assert_eq!(register(8, 2), Some(libc::EINVAL), "REMOTE_WRITE without LOCAL_WRITE");
    assert_eq!(register(8, 8), Some(libc::EINVAL), "REMOTE_ATOMIC without LOCAL_WRITE");
    assert_eq!(register(8, 1 << 15), Some(libc::EINVAL), "unknown");
    assert_eq!(
        unsafe { (LOOPBACK.reg_mr)(end.pd, ptr::null_mut(), 8, 0, Holds::Open) }.err(),
        Some(libc::EFAULT)
    );
}

/// A long-lived object keeps its number, and new ones are found after all were taken once.
#[test]
#[cfg_attr(miri, ignore = "slow")]
fn a_fabric_never_runs_out_of_numbers() {
    let fabric = Fabric::new();
    let (a, b) = pair_on(&fabric, &RC);
    fabric.shared().post(|state| state.numbers = crate::words::limits::BITS_24 - 8);
    for _ in 0..100 {
        let end = End::new(&fabric, &RC);
        assert!(![a.number(), b.number()].contains(&end.number()));
    }
    a.write(0, b"still there");
    assert_eq!(b.post_recv(1, &[b.sge(0, 64)]), 0);
    assert_eq!(a.post_send(&SendWr::send(2, &[a.sge(0, 11)])), 0);
    assert_eq!((b.wait().byte_len, b.read(0, 11)), (11, b"still there".to_vec()));
}
