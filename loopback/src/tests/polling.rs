//! Extended polling, as C uses it: its results, and misuse that is reported.

use super::*;
use crate::Personality;
use proverbs_sys::polling::{self as c, CqAttr, ibv_cq_ex, ibv_poll_cq_attr, wc_flags};

const TS: u64 = wc_flags::COMPLETION_TIMESTAMP;

fn asked(wc_flags: u64) -> CqAttr {
    CqAttr { cqe: 8, channel: ptr::null_mut(), vector: 0, wc_flags, is_single_threaded: false }
}

fn create(end: &End, wc_flags: u64) -> Result<*mut ibv_cq_ex, i32> {
    unsafe { (LOOPBACK.create_cq_ex)(end.context, asked(wc_flags)) }.map(|cq| cq.as_ptr())
}

fn start(cq: *mut ibv_cq_ex) -> i32 {
    unsafe { c::start_poll(cq, &mut ibv_poll_cq_attr { comp_mask: 0 }) }
}

#[test]
fn only_requested_functions_exist() {
    let end = End::new(&Fabric::new(), &RC);
    let cq = create(&end, TS | wc_flags::SL).unwrap();
    unsafe {
        assert!((*cq).start_poll.is_some() && (*cq).read_opcode.is_some());
        assert!((*cq).read_completion_ts.is_some() && (*cq).read_sl.is_some());
        assert!((*cq).read_byte_len.is_none() && (*cq).read_completion_wallclock_ns.is_none());
        assert!((*cq).read_dlid_path_bits.is_none() && (*cq).read_qp_num.is_none());
        assert_eq!((LOOPBACK.destroy_cq)(cq.cast()), Ok(()));
    }
    assert_eq!(create(&end, 1 << 8), Err(libc::EOPNOTSUPP), "no VLANs");
    let end = End::new(&Fabric::with(Personality::Rxe), &RC);
    assert_eq!(create(&end, TS), Err(libc::EOPNOTSUPP));
    let cq = create(&end, wc_flags::OURS | wc_flags::DLID_PATH_BITS).unwrap();
    assert_eq!(unsafe { (LOOPBACK.destroy_cq)(cq.cast()) }, Ok(()));
}

/// A completion queue with two flushed receives.
fn with_two(end: &End) -> (*mut ibv_cq_ex, *mut ibv_qp) {
    let cq = create(end, wc_flags::OURS).unwrap();
    let cap = ibv_qp_cap { max_send_wr: 4, max_recv_wr: 4, ..zeroed() };
    let (send_cq, qp_type) = (cq.cast(), ibv_qp_type::IBV_QPT_RC);
    let mut init = ibv_qp_init_attr { send_cq, recv_cq: send_cq, cap, qp_type, ..zeroed() };
    let qp = unsafe { (LOOPBACK.create_qp)(end.pd, &mut init) }.unwrap().as_ptr();
    let to = |qp_state, mask: ibv_qp_attr_mask| unsafe {
        let mut attr = ibv_qp_attr { qp_state, port_num: 1, ..zeroed() };
        (LOOPBACK.modify_qp)(qp, &mut attr, mask.0 as i32)
    };
    use ibv_qp_attr_mask as m;
    let init = m::IBV_QP_STATE | m::IBV_QP_PKEY_INDEX | m::IBV_QP_PORT | m::IBV_QP_ACCESS_FLAGS;
    assert_eq!(to(ibv_qp_state::IBV_QPS_INIT, init), Ok(()));
    for wr_id in 1..=2 {
        let (next, sg_list) = (ptr::null_mut(), ptr::null_mut());
        let mut wr = ibv_recv_wr { wr_id, next, sg_list, num_sge: 0 };
        let post = unsafe { (*end.context).ops.post_recv }.unwrap();
        assert_eq!(unsafe { post(qp, &mut wr, &mut ptr::null_mut()) }, 0);
    }
    assert_eq!(to(ibv_qp_state::IBV_QPS_ERR, m::IBV_QP_STATE), Ok(()));
    (cq, qp)
}

fn poll(cq: *mut ibv_cq_ex) -> i32 {
    let mut wc = MaybeUninit::uninit();
    unsafe { proverbs_sys::data::poll_cq(cq.cast(), 1, wc.as_mut_ptr()) }
}

#[test]
fn completions_are_shown_one_after_the_other() {
    let end = End::new(&Fabric::new(), &RC);
    let (cq, qp) = with_two(&end);
    let wrong = unsafe { c::start_poll(cq, &mut ibv_poll_cq_attr { comp_mask: 1 }) };
    assert_eq!(wrong, libc::EINVAL);
    unsafe {
        assert_eq!(start(cq), 0);
        assert_eq!(((*cq).wr_id, (*cq).status), (1, ibv_wc_status::IBV_WC_WR_FLUSH_ERR));
        assert_eq!((c::next_poll(cq), (*cq).wr_id), (0, 2));
        assert_eq!(c::read_qp_num(cq), (*qp).qp_num);
        assert_eq!(c::next_poll(cq), libc::ENOENT);
        c::end_poll(cq);
        assert_eq!((start(cq), poll(cq)), (libc::ENOENT, 0));
        assert_eq!(((LOOPBACK.destroy_qp)(qp), (LOOPBACK.destroy_cq)(cq.cast())), (Ok(()), Ok(())));
    }
}

/// Each wrong call and its report. Those of the data path end the process.
#[cfg(debug_assertions)]
const WRONG: [(&str, &str); 9] = [
    ("end", "R14.1"),
    ("next", "R14.1"),
    ("read", "no completion is shown"),
    ("poll", "R14.5"),
    ("start", "R14.5"),
    ("resize", "R14.5"),
    ("destroy", "R14.5"),
    ("without the end", "R14.5"),
    ("rxe", "R14.3"),
];

/// Proves R14.1, R14.5.
#[cfg(debug_assertions)]
#[test]
#[cfg_attr(miri, ignore = "starts itself")]
fn calls_out_of_order_are_reported() {
    for (call, told) in WRONG {
        let (is_well, said) = ended_by("polling::a_call_out_of_order", ("POLLING_CALL", call));
        assert!(!is_well && said.contains(told), "{call}: {said}");
    }
}

#[cfg(debug_assertions)]
#[test]
#[ignore = "started by calls_out_of_order_are_reported"]
fn a_call_out_of_order() {
    let call = std::env::var("POLLING_CALL").unwrap();
    let is_rxe = call == "rxe";
    let personality = if is_rxe { Personality::Rxe } else { Personality::Plain };
    let end = End::new(&Fabric::with(personality), &RC);
    let (cq, _qp) = with_two(&end);
    unsafe {
        // Polling has not started yet.
        match &*call {
            "end" => c::end_poll(cq),
            "next" => drop(c::next_poll(cq)),
            "read" => drop(c::read_opcode(cq)),
            _ => assert_eq!(start(cq), 0),
        }
        match &*call {
            "poll" => drop(poll(cq)),
            "start" => drop(start(cq)),
            "resize" => drop((LOOPBACK.resize_cq)(cq.cast(), 16)),
            "destroy" => drop((LOOPBACK.destroy_cq)(cq.cast())),
            "rxe" => drop(c::next_poll(cq)),
            _ => {
                assert_eq!((c::next_poll(cq), c::next_poll(cq)), (0, libc::ENOENT));
                poll(cq);
            }
        }
    }
}
