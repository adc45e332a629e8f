//! The arguments passed to C, with stubs instead of the C functions.

#![allow(clippy::undocumented_unsafe_blocks)] // all objects of this file are live

use std::ffi::c_void;

use super::*;
use crate::control::LIBIBVERBS;
use crate::extended::BARE;
use crate::libraries::VERBS;
use crate::terms::rate::StaticRate;
use crate::tests::{self, ANSWER, answered, seen};

unsafe extern "C" fn index(device: *mut ibv_device) -> c_int {
    answered(format!("index of {}", unsafe { (*device).name[0] }))
}

unsafe extern "C" fn speed(context: *mut ibv_context, port: u32, out: *mut u64) -> c_int {
    unsafe { *out = 4000 };
    answered(format!("speed of port {port} of {}", unsafe { (*context).cmd_fd }))
}

unsafe extern "C" fn in_order(qp: *mut ibv_qp, opcode: u32, flags: u32) -> c_int {
    answered(format!("qp {}, opcode {opcode}, flags {flags}", unsafe { (*qp).qp_num }))
}

unsafe extern "C" fn values(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int {
    let asked = unsafe { (*values).comp_mask };
    unsafe { (*values).raw_clock.tv_nsec = 77 };
    answered(format!("values {asked} of {}", unsafe { (*context).cmd_fd }))
}

/// Calls with a context whose `verbs_context` has this size.
fn with<R>(size: usize, ask: impl FnOnce(*mut ibv_context) -> R) -> R {
    const WORDS: usize = QUERY_RT_VALUES / 8;
    let context = tests::context::<WORDS>(size, &[(QUERY_RT_VALUES, values as *const ())]);
    unsafe {
        (*context).cmd_fd = 9;
        (*(*context).device).name[0] = 5;
    }
    ask(context)
}

const ALL: usize = BARE + QUERY_RT_VALUES;

/// Proves R21.1.
#[test]
fn queries_reach_c_unchanged() {
    REPLACED.set(Some(Symbols {
        device_index: Some(index),
        port_speed: Some(speed),
        data_in_order: Some(in_order),
    }));
    let index = || with(ALL, |context| unsafe { (LIBIBVERBS.device_index)(context) });
    let speed = || with(ALL, |context| unsafe { (LIBIBVERBS.query_port_speed)(context, 2) });
    let ticks = |size| {
        let mut values = ibv_values_ex { comp_mask: RAW_CLOCK, ..zeroed() };
        let ask = LIBIBVERBS.query_rt_values;
        let answer = with(size, |context| unsafe { ask(context, &mut values) });
        (answer, values.raw_clock.tv_nsec)
    };
    let mut qp = ibv_qp { qp_num: 17, ..zeroed() };
    let mut in_order = |opcode| unsafe { (LIBIBVERBS.data_in_order)(&mut qp, opcode) };
    assert_eq!((index(), speed(), ticks(ALL), in_order(4)), (0, Ok(4000), (Ok(()), 77), false));
    assert_eq!(
        seen(),
        ["index of 5", "speed of port 2 of 9", "values 1 of 9", "qp 17, opcode 4, flags 0"]
    );
    ANSWER.set(1);
    assert_eq!((index(), speed(), in_order(0)), (1, Err(1), true));
    ANSWER.set(-1);
    assert_eq!((index(), speed(), in_order(0)), (-1, Err(libc::EPERM), false));
    // A positive result is itself an errno.
    ANSWER.set(libc::EBADF);
    assert_eq!(speed(), Err(libc::EBADF));
    ANSWER.set(-1);
    // An older library has none of these.
    seen();
    REPLACED.set(Some(Symbols::default()));
    assert_eq!((index(), speed(), in_order(0)), (-1, Err(libc::ENOSYS), false));
    assert_eq!(ticks(ALL - 8), (Err(libc::EOPNOTSUPP), 0));
    assert_eq!(seen(), [""; 0]);
}

/// Compares the table of rates with the library's functions, for the rates that this library has.
#[test]
#[cfg_attr(miri, ignore = "asks the library")]
fn rates_match_the_library() {
    type Convert = unsafe extern "C" fn(c_int) -> c_int;
    let function = |name| unsafe {
        std::mem::transmute::<*mut c_void, Option<Convert>>(VERBS.find(name, None))
    };
    let ask = |name, value| unsafe { function(name).expect("since rdma-core 20")(value) };
    for code in 0..=20 {
        let rate = StaticRate::from_c(code);
        let known = |value: Option<u32>| value.map_or(-1, |value| value as c_int);
        let (mbps, mult) = (rate.and_then(StaticRate::to_mbps), rate.and_then(StaticRate::to_mult));
        assert_eq!(ask(c"ibv_rate_to_mbps", code.into()), known(mbps), "{rate:?}");
        assert_eq!(ask(c"ibv_rate_to_mult", code.into()), known(mult), "{rate:?}");
        if let Some(mbps) = mbps {
            assert_eq!(ask(c"mbps_to_ibv_rate", mbps as c_int), code.into());
        }
        if let Some(mult) = mult {
            assert_eq!(ask(c"mult_to_ibv_rate", mult as c_int), code.into());
        }
    }
}
