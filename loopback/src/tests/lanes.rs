//! Thread domains: parent domains, which threads may use a lane, and devices without them.

use super::*;
use crate::Personality;
use proverbs_sys::control::Answer;
use proverbs_sys::lanes::ibv_td;
use proverbs_sys::polling::CqAttr;

const SINGLE: CqAttr =
    CqAttr { cqe: 8, channel: ptr::null_mut(), vector: 0, wc_flags: 0, is_single_threaded: true };

/// A lane, as C makes one, with a completion queue and a queue pair.
struct Lane {
    end: End,
    td: *mut ibv_td,
    joint: *mut ibv_pd,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    /// A queue pair for any thread whose receives complete into the lane. The safe interface cannot
    /// make one.
    stray: *mut ibv_qp,
}

// SAFETY: raw pointers, which the tests misuse deliberately.
unsafe impl std::marker::Send for Lane {}

impl Lane {
    fn new() -> Lane {
        let end = End::new(&Fabric::new(), &RC);
        unsafe {
            let td = (LOOPBACK.alloc_td)(end.context).unwrap().as_ptr();
            let joint = (LOOPBACK.alloc_parent_domain)(end.pd, td).unwrap().as_ptr();
            let cq = (LOOPBACK.create_cq_ex)(end.context, SINGLE).unwrap().cast().as_ptr();
            let cap = ibv_qp_cap { max_send_wr: 4, max_recv_wr: 4, ..zeroed() };
            let qp_type = ibv_qp_type::IBV_QPT_RC;
            let mut init = ibv_qp_init_attr { send_cq: cq, recv_cq: cq, cap, qp_type, ..zeroed() };
            let qp = (LOOPBACK.create_qp)(joint, &mut init).unwrap().as_ptr();
            init.send_cq = end.cq;
            let stray = (LOOPBACK.create_qp)(end.pd, &mut init).unwrap().as_ptr();
            Lane { end, td, joint, cq, qp, stray }
        }
    }

    /// Destroys each member, in order.
    fn end(self) -> [Answer; 5] {
        unsafe {
            [
                (LOOPBACK.destroy_qp)(self.qp),
                (LOOPBACK.destroy_qp)(self.stray),
                (LOOPBACK.destroy_cq)(self.cq),
                (LOOPBACK.dealloc_pd)(self.joint),
                (LOOPBACK.dealloc_td)(self.td),
            ]
        }
    }
}

#[test]
fn a_lane_is_destroyed_from_its_leaves() {
    let lane = Lane::new();
    unsafe {
        assert_eq!((*lane.joint).handle, (*lane.end.pd).handle, "one domain to its regions");
        assert_eq!((LOOPBACK.dealloc_td)(lane.td), Err(libc::EBUSY));
        assert_eq!((LOOPBACK.dealloc_pd)(lane.joint), Err(libc::EBUSY));
        assert_eq!((LOOPBACK.close_device)(lane.end.context), Err(libc::EBUSY));
        // A thread domain of another device.
        let other = End::new(&Fabric::new(), &RC);
        let joined = (LOOPBACK.alloc_parent_domain)(other.pd, lane.td);
        assert_eq!(joined.err(), Some(libc::EINVAL));
    }
    assert_eq!(lane.end(), [Ok(()); 5]);
}

/// Every call by another thread on a member of a lane is reported, even if the calls do not
/// overlap.
#[cfg(debug_assertions)]
#[test]
fn a_lane_is_used_by_one_thread() {
    let by_another = |call: fn(&Lane) -> Answer| {
        let lane = Lane::new();
        let (lane, told) = std::thread::spawn(move || {
            let called = std::panic::AssertUnwindSafe(|| assert_eq!(call(&lane), Ok(())));
            let told = std::panic::catch_unwind(called).is_err();
            (lane, told)
        })
        .join()
        .unwrap();
        assert_eq!(lane.end(), [Ok(()); 5]);
        told
    };
    unsafe fn qp_to_init(qp: *mut ibv_qp) -> Answer {
        let mut attr =
            ibv_qp_attr { qp_state: ibv_qp_state::IBV_QPS_INIT, port_num: 1, ..zeroed() };
        use ibv_qp_attr_mask as Is;
        let mask = Is::IBV_QP_STATE.0
            | Is::IBV_QP_PKEY_INDEX.0
            | Is::IBV_QP_PORT.0
            | Is::IBV_QP_ACCESS_FLAGS.0;
        unsafe { (LOOPBACK.modify_qp)(qp, &mut attr, mask as i32) }
    }
    assert!(by_another(|lane| unsafe { (LOOPBACK.resize_cq)(lane.cq, 16) }));
    assert!(by_another(|lane| unsafe { qp_to_init(lane.qp) }));
    assert!(by_another(|lane| unsafe {
        let mut init = ibv_srq_init_attr {
            attr: ibv_srq_attr { max_wr: 1, max_sge: 1, ..zeroed() },
            ..zeroed()
        };
        (LOOPBACK.create_srq)(lane.joint, &mut init).map(drop)
    }));
    // Any thread may use objects outside the lane.
    assert!(!by_another(|lane| unsafe { (LOOPBACK.resize_cq)(lane.end.cq, 80) }));
    assert!(!by_another(|lane| unsafe { qp_to_init(lane.end.qp) }));
    let lane = Lane::new();
    assert_eq!(unsafe { [qp_to_init(lane.qp), (LOOPBACK.resize_cq)(lane.cq, 80)] }, [Ok(()); 2]);
    assert_eq!(lane.end(), [Ok(()); 5]);
    assert!(by_another(|lane| unsafe { qp_to_init(lane.stray) }));
}

/// Calls of the data path are made through C, where a report ends the process.
#[cfg(debug_assertions)]
#[test]
#[cfg_attr(miri, ignore = "starts itself")]
fn the_data_path_is_used_by_one_thread() {
    let test = "lanes::a_call_of_the_data_path_by_another_thread";
    for call in ["poll", "notify", "send", "receive", "none"] {
        let (is_well, said) = ended_by(test, ("LANE_CALL", call));
        assert_eq!(is_well, call == "none", "{call}: {said}");
        assert_eq!(said.contains("two threads use one lane"), call != "none", "{call}: {said}");
    }
}

#[cfg(debug_assertions)]
#[test]
#[ignore = "started by the_data_path_is_used_by_one_thread"]
fn a_call_of_the_data_path_by_another_thread() {
    use proverbs_sys::data::{self, Verb};
    let lane = Lane::new();
    let call = std::env::var("LANE_CALL").unwrap();
    let work = move || unsafe {
        let lane = std::mem::ManuallyDrop::new(lane);
        let (mut wc, mut bad_send) = (MaybeUninit::uninit(), ptr::null_mut());
        let (mut send, mut bad_recv) = (zeroed(), ptr::null_mut());
        let (next, sg_list) = (ptr::null_mut(), ptr::null_mut());
        let mut recv = ibv_recv_wr { wr_id: 0, next, sg_list, num_sge: 0 };
        match &*call {
            "poll" => data::poll_cq(lane.cq, 1, wc.as_mut_ptr()),
            "notify" => data::req_notify_cq(lane.cq, 0),
            "send" => data::PostSend::post(lane.qp, &mut send, &mut bad_send),
            "receive" => data::PostRecv::post(lane.qp, &mut recv, &mut bad_recv),
            _ => data::poll_cq(lane.end.cq, 1, wc.as_mut_ptr()),
        }
    };
    std::thread::spawn(work).join().unwrap();
}

/// Proves R17.2.
#[test]
fn some_devices_have_none() {
    let has = |personality| unsafe {
        let end = End::new(&Fabric::with(personality), &RC);
        let td = (LOOPBACK.alloc_td)(end.context);
        let joint = td.and_then(|td| (LOOPBACK.alloc_parent_domain)(end.pd, td.as_ptr()));
        let cq = (LOOPBACK.create_cq_ex)(end.context, SINGLE);
        assert_eq!(joint.map_or(Ok(()), |joint| (LOOPBACK.dealloc_pd)(joint.as_ptr())), Ok(()));
        assert_eq!(td.map_or(Ok(()), |td| (LOOPBACK.dealloc_td)(td.as_ptr())), Ok(()));
        assert_eq!(cq.map_or(Ok(()), |cq| (LOOPBACK.destroy_cq)(cq.cast().as_ptr())), Ok(()));
        let outcomes = [td.err(), joint.err(), cq.err()];
        assert!(outcomes.iter().all(|errno| errno.is_none_or(|e| e == libc::EOPNOTSUPP)));
        outcomes.map(|errno| errno.is_none())
    };
    assert_eq!(has(Personality::Plain), [true; 3]);
    assert_eq!(has(Personality::Mlx5), [true; 3]);
    assert_eq!(has(Personality::Rxe), [false, false, true]);
    let worst: std::collections::BTreeSet<_> =
        (0..40).map(|seed| has(Personality::worst(seed))).collect();
    let all = [[false, false, false], [false, false, true], [true, false, false]];
    let all = all.into_iter().chain([[true, false, true], [true, true, false], [true; 3]]);
    assert_eq!(worst, all.collect());
}
