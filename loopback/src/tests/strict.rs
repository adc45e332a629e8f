//! The device refuses mistakes, and reports misuse that the crate prevents.

use super::datagram::{Handle, datagram};
use super::*;
use ibv_wr_opcode::*;

const FENCE: u32 = 1;
const IP_CSUM: u32 = 16;

#[test]
fn flags_that_mean_nothing_are_refused() {
    let (rc, to_rc) = pair(&RC);
    let (uc, to_uc) = pair(&UC);
    let send = |end: &End, flags| {
        let (code, bad) = end.post_sends(&[SendWr::send(1, &[]).flags(SIGNALED | flags)]);
        assert_eq!(bad, (code != 0).then_some(0));
        code
    };
    for unknown in [IP_CSUM, 32, 1 << 31] {
        assert_eq!((send(&rc, unknown), send(&uc, unknown)), (libc::EINVAL, libc::EINVAL));
    }
    assert_eq!((send(&rc, FENCE), send(&uc, FENCE)), (0, libc::EINVAL), "a fence is RC's");
    let (ud, to_ud) = pair(&UD);
    let ah = Handle::new(&ud, &to_ud, 1);
    let fenced = datagram(&ah, &to_ud, QKEY, ud.sge(0, 8)).flags(FENCE);
    assert_eq!(ud.post_send(&fenced), libc::EINVAL);
    // A WRITE without an immediate, a READ and an atomic cannot be solicited.
    for (opcode, code) in [
        (IBV_WR_RDMA_WRITE, libc::EINVAL),
        (IBV_WR_RDMA_READ, libc::EINVAL),
        (IBV_WR_RDMA_WRITE_WITH_IMM, 0),
    ] {
        let wr = SendWr::new(1, opcode, &[rc.sge(0, 8)]).to(&to_rc, 0).imm(1).flags(SOLICITED);
        assert_eq!(rc.post_send(&wr), code, "opcode {opcode}");
    }
    let read = SendWr::new(1, IBV_WR_RDMA_READ, &[rc.sge(0, 8)]).to(&to_rc, 0).flags(INLINE);
    assert_eq!(rc.post_send(&read), libc::EINVAL);
    drop(to_uc);
}

#[test]
fn a_queue_pair_number_has_24_bits() {
    let (a, b) = pair(&UD);
    let ah = Handle::new(&a, &b, 1);
    let mut wr = datagram(&ah, &b, QKEY, a.sge(0, 8));
    wr.ud.as_mut().unwrap().1 |= 1 << 24;
    assert_eq!(a.post_send(&wr), libc::EINVAL);
}

#[test]
fn addresses_are_checked_on_modify() {
    let (a, b) = pair(&UD);
    let create = |change: fn(&mut ibv_ah_attr)| {
        let mut attr = a.address_of(&b, 1);
        change(&mut attr);
        unsafe { (LOOPBACK.create_ah)(a.pd, &mut attr) }.map(|ah| ah.as_ptr())
    };
    for change in [
        |attr: &mut ibv_ah_attr| attr.sl = 16,
        |attr: &mut ibv_ah_attr| attr.grh.flow_label = 1 << 20,
        |attr: &mut ibv_ah_attr| attr.port_num = 2,
        |attr: &mut ibv_ah_attr| attr.is_global = 0,
    ] {
        assert_eq!(create(change), Err(libc::EINVAL));
    }
    let ah = create(|_| ()).unwrap();
    assert_eq!(unsafe { (LOOPBACK.destroy_ah)(ah) }, Ok(()));
}

/// Whether the device reports misuse, and has no other effect.
#[cfg(debug_assertions)]
fn is_loud(broken: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(broken)).is_err()
}

#[cfg(debug_assertions)]
#[test]
fn objects_of_an_outstanding_work_request_stay() {
    let (a, b) = pair(&RC);
    assert_eq!(b.post_recv(1, &[b.sge(0, 8)]), 0);
    assert!(is_loud(|| assert_eq!(unsafe { (LOOPBACK.dereg_mr)(b.mr) }, Ok(()))));
    // A send that has begun waits for its peer's receive.
    assert_eq!((a.post_send(&SendWr::send(2, &[])), a.polled().len()), (0, 1));
    assert_eq!(a.post_send(&SendWr::send(3, &[a.sge(0, 8)])), 0);
    assert!(a.poll().is_empty());
    assert!(is_loud(|| assert_eq!(unsafe { (LOOPBACK.dereg_mr)(a.mr) }, Ok(()))));
    let (a2, b2) = pair(&Wish { srq: true, ..RC });
    assert_eq!(b2.post_recv(1, &[b2.sge(0, 8)]), 0);
    assert!(is_loud(|| assert_eq!(unsafe { (LOOPBACK.dereg_mr)(b2.mr) }, Ok(()))));
    drop(a2);
}

/// As from two threads that share an object wrongly.
#[cfg(debug_assertions)]
#[test]
fn calls_on_one_object_do_not_overlap() {
    use crate::shared::Call;
    let fabric = Fabric::new();
    let shared = fabric.shared();
    let begun = shared.begin(Call::Poll, 7);
    assert!(shared.begin(Call::Poll, 8).is_some() && shared.begin(Call::Send, 7).is_some());
    assert!(is_loud(|| drop(shared.begin(Call::Poll, 7))));
    drop(begun);
    assert!(shared.begin(Call::Poll, 7).is_some());
}

#[test]
fn an_element_of_no_length_may_be_a_long_one() {
    let outcome = |seed| {
        let fabric = Fabric::with(crate::Personality::worst(seed));
        let (a, _b) = pair_on(&fabric, &RC);
        let wr = SendWr::new(1, IBV_WR_RDMA_WRITE, &[a.sge(0, 0)]).to(&_b, 0);
        assert_eq!(a.post_send(&wr), 0);
        let wc = a.poll_raw().remove(0);
        unsafe { (&raw const (*wc.as_ptr()).status).read() }
    };
    let all: Vec<_> = (0..8).map(outcome).collect();
    assert!(all.contains(&0) && all.contains(&ibv_wc_status::IBV_WC_LOC_LEN_ERR), "{all:?}");
}

#[test]
fn a_query_fills_the_requested_attributes() {
    let query = |personality, mask: u32| {
        let (a, _b) = pair_on(&Fabric::with(personality), &RC);
        let (attr, _) = unsafe { (LOOPBACK.query_qp)(a.qp, mask as i32) }.unwrap();
        (attr.qp_state, attr.timeout)
    };
    use crate::Personality;
    let rts = ibv_qp_state::IBV_QPS_RTS;
    assert_eq!(query(Personality::Plain, 1), (rts, 14));
    let worst: Vec<_> = (0..8).map(|seed| query(Personality::worst(seed), 1)).collect();
    assert!(
        worst.iter().all(|answer| answer.0 == rts) && worst.iter().any(|answer| answer.1 != 14)
    );
    assert_eq!(query(Personality::worst(0), 1 | 512), (rts, 14));
}
