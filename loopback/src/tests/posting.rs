//! The posts that are accepted, and the value of `bad_wr`.

use super::*;
use ibv_wr_opcode::*;

#[test]
fn bad_wr_is_the_first_refused_request() {
    for bad in 0..4 {
        let (a, b) = pair(&RC);
        let good = SendWr::new(0, IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]).to(&b, 0);
        let mut list: Vec<_> = (0..4).map(|i| SendWr { wr_id: i, ..good.clone() }).collect();
        list[bad].opcode = 99;
        assert_eq!(a.post_sends(&list), (libc::EINVAL, Some(bad)));
        let accepted: Vec<_> = (0..bad as u64).map(|i| (i, 0)).collect();
        assert_eq!(a.polled(), accepted);
    }
}

#[test]
fn c_refuses_these_during_the_post() {
    let (a, b) = pair(&RC);
    let sge = a.sge(0, 8);
    let atomic = SendWr::new(1, IBV_WR_ATOMIC_FETCH_AND_ADD, &[sge]).to(&b, 0).operands(1, 0);
    let read = SendWr::new(1, IBV_WR_RDMA_READ, &[sge]).to(&b, 0);
    let short = SendWr { sges: vec![a.sge(0, 7)], ..atomic.clone() };
    for wr in [
        SendWr::send(1, &[sge; 3]),
        SendWr::send(1, &[a.sge(0, 65)]).flags(INLINE),
        // Two lengths whose sum wraps to 0 (R2.8).
        SendWr::send(1, &[a.sge(0, 1 << 31), a.sge(0, 1 << 31)]).flags(INLINE),
        read.flags(INLINE),
        atomic.to(&b, 4),
        short,
    ] {
        assert_eq!(a.post_sends(&[wr]), (libc::EINVAL, Some(0)));
    }
    let (uc, peer) = pair(&UC);
    let read = SendWr::new(1, IBV_WR_RDMA_READ, &[uc.sge(0, 8)]).to(&peer, 0);
    assert_eq!(uc.post_send(&read), libc::EINVAL);
    let (ud, peer) = pair(&UD);
    let write = SendWr::new(1, IBV_WR_RDMA_WRITE, &[ud.sge(0, 8)]).to(&peer, 0);
    assert_eq!(ud.post_send(&write), libc::EINVAL);
    assert_eq!(
        ud.post_send(&SendWr { ud: Some((ptr::null_mut(), 1, 1)), ..SendWr::send(1, &[]) }),
        libc::EINVAL
    );
}

#[test]
fn polling_a_completion_frees_its_send_slot_and_earlier_ones() {
    let (a, b) = pair(&Wish { depth: 4, ..RC });
    let quiet = SendWr::new(0, IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]).to(&b, 0).flags(0);
    let loud = SendWr { flags: SIGNALED, ..quiet.clone() };
    let list = [quiet.clone(), quiet.clone(), loud, quiet.clone(), quiet.clone()];
    assert_eq!(a.post_sends(&list), (libc::ENOMEM, Some(4)));
    assert!(b.poll().is_empty(), "all is done now, but not polled");
    assert_eq!(a.post_send(&quiet), libc::ENOMEM);
    assert_eq!(a.polled().len(), 1);
    let list = [quiet.clone(), quiet.clone(), quiet.clone(), quiet];
    assert_eq!(a.post_sends(&list), (libc::ENOMEM, Some(3)));
}

#[test]
fn receive_queues_have_their_depth() {
    for srq in [false, true] {
        let (a, b) = pair(&Wish { depth: 2, srq, ..RC });
        let posts: Vec<_> = (0..3).map(|wr_id| b.post_recv(wr_id, &[])).collect();
        assert_eq!(posts, [0, 0, libc::ENOMEM]);
        assert_eq!(b.post_recv(0, &[b.sge(0, 1); 3]), libc::ENOMEM);
        assert_eq!(a.post_send(&SendWr::send(1, &[])), 0);
        assert_eq!(a.polled().len(), 1);
        assert_eq!(b.post_recv(0, &[b.sge(0, 1); 3]), libc::EINVAL);
        assert_eq!(b.post_recv(0, &[]), 0, "the completion made room, polled or not");
    }
}

#[test]
fn a_completion_queue_that_overran_is_unusable() {
    let (a, b) = pair(&Wish { cqe: 1, ..RC });
    let wr = SendWr::new(0, IBV_WR_RDMA_WRITE, &[a.sge(0, 8)]).to(&b, 0);
    assert_eq!(a.post_sends(&[wr.clone(), wr]), (0, None));
    assert_eq!(a.state(), ibv_qp_state::IBV_QPS_ERR);
    let poll = unsafe { (*a.context).ops.poll_cq }.unwrap();
    let mut wc = MaybeUninit::uninit();
    assert_eq!(unsafe { poll(a.cq, 1, wc.as_mut_ptr()) }, -1);
}

#[test]
fn an_srq_is_resized_and_armed() {
    let (_a, b) = pair(&Wish { depth: 2, srq: true, ..RC });
    let modify = |mask: i32, max_wr, srq_limit| {
        let mut attr = ibv_srq_attr { max_wr, srq_limit, ..zeroed() };
        unsafe { (LOOPBACK.modify_srq)(b.srq, &mut attr, mask) }
    };
    assert_eq!(modify(2, 0, 3), Err(libc::EINVAL), "a limit beyond the depth");
    assert_eq!(modify(1 | 2, 3, 3), Ok(()));
    assert_eq!(modify(1, 2, 0), Err(libc::EINVAL), "a depth below the limit");
    assert_eq!(modify(4, 2, 0), Err(libc::EINVAL));
    let attr = unsafe { (LOOPBACK.query_srq)(b.srq) }.unwrap();
    assert_eq!((attr.max_wr, attr.max_sge, attr.srq_limit), (3, 2, 3));
    let posts: Vec<_> = (0..4).map(|wr_id| b.post_recv(wr_id, &[])).collect();
    assert_eq!(posts, [0, 0, 0, libc::ENOMEM]);
}
