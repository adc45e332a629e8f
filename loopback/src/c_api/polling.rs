//! Extended polling: `ibv_create_cq_ex`, and the functions of its completion queues.

#![allow(unsafe_code)] // C functions on C objects.

use std::ffi::{c_int, c_uint};

use super::completion::create;
use super::write_wc::{Fields, fields};
use super::{alone, verb};
use crate::shared::Call;
use crate::state::State;
use crate::words::clock;
use crate::words::contract::broken;
use proverbs_sys::control::Created;
use proverbs_sys::polling::{CqAttr, ibv_cq_ex, ibv_poll_cq_attr, wc_flags};
use proverbs_sys::types::*;

/// A completion queue. Queues of `ibv_create_cq` have no functions.
#[repr(C)]
pub(super) struct Queue {
    pub(super) ex: ibv_cq_ex,
    /// The current completion, between start and end.
    pub(super) shown: Option<Shown>,
}

pub(super) struct Shown {
    fields: Fields,
    qp_num: u32,
    time: clock::Time,
}

const CLOCKS: u64 = wc_flags::COMPLETION_TIMESTAMP | wc_flags::COMPLETION_TIMESTAMP_WALLCLOCK;
const KNOWN: u64 = wc_flags::OURS | wc_flags::DLID_PATH_BITS | CLOCKS;

pub(super) unsafe fn create_cq_ex(context: *mut ibv_context, attr: CqAttr) -> Created<ibv_cq_ex> {
    let has = |state: &mut State, _| {
        let clocks = attr.wc_flags & CLOCKS == 0 || state.habits.has_clock();
        let lanes = !attr.is_single_threaded || state.habits.has_single_threaded_queues();
        clocks && lanes && attr.wc_flags & !KNOWN == 0
    };
    // SAFETY: `context` is live (the verb's contract).
    if !unsafe { verb(context, has) } {
        return Err(libc::EOPNOTSUPP);
    }
    // SAFETY: `context` is live, and the channel in `attr` is null or live (the verb's contract).
    // `create` requires the same.
    let cq = unsafe { create(context, attr) }?;
    if attr.is_single_threaded {
        // SAFETY: the queue was just made.
        unsafe { verb(cq.cast::<ibv_cq>().as_ptr(), State::use_alone) };
    }
    Ok(cq)
}

/// The completion queue with the functions for the requested fields only.
pub(super) fn functions(cq: ibv_cq, asked: u64) -> ibv_cq_ex {
    if asked == 0 {
        return ibv_cq_ex { cq, ..zeroed() };
    }
    macro_rules! asked {
        ($flag:ident $function:ident) => {
            (asked & wc_flags::$flag != 0).then_some($function as _)
        };
    }
    ibv_cq_ex {
        cq,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_wc_flags: Some(read_wc_flags),
        read_byte_len: asked!(BYTE_LEN read_byte_len),
        read_imm_data: asked!(IMM read_imm_data),
        read_qp_num: asked!(QP_NUM read_qp_num),
        read_src_qp: asked!(SRC_QP read_src_qp),
        read_slid: asked!(SLID read_slid),
        read_sl: asked!(SL read_sl),
        read_dlid_path_bits: asked!(DLID_PATH_BITS read_dlid_path_bits),
        read_completion_ts: asked!(COMPLETION_TIMESTAMP read_completion_ts),
        read_completion_wallclock_ns: asked!(
            COMPLETION_TIMESTAMP_WALLCLOCK read_completion_wallclock_ns
        ),
        ..zeroed()
    }
}

/// Shows the next completion: 0, ENOENT or another errno.
///
/// # Safety
/// `cq` is live and was made by `create_cq_ex`, and no other thread polls it.
unsafe fn show(cq: *mut ibv_cq_ex, call: fn(&mut State, u32)) -> c_int {
    let next = |state: &mut State, number| {
        call(state, number);
        let entry = match state.poll(number) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Err(libc::ENOENT),
            Err(_) => return Err(libc::EIO),
        };
        let fields = fields(&entry, state.habits.fill());
        let time = state.habits.time(entry.at, entry.clock);
        Ok((entry.wr_id, entry.status, Shown { fields, qp_num: entry.qp_num, time }))
    };
    // SAFETY: `cq` is live (this function's contract).
    match unsafe { alone(cq.cast::<ibv_cq>(), Call::Poll, next) } {
        Ok((wr_id, status, shown)) => {
            // SAFETY: `cq` is live, `create` made it as a `Queue`, and no other thread polls it
            // (this function's contract). Fields are written without a reference to the rest.
            unsafe {
                (*cq).wr_id = wr_id;
                (*cq).status = status;
                (*cq.cast::<Queue>()).shown = Some(shown);
            }
            0
        }
        Err(errno) => {
            // SAFETY: `cq` is live, `create` made it as a `Queue`, and no other thread polls it
            // (this function's contract).
            unsafe { (*cq.cast::<Queue>()).shown = None };
            errno
        }
    }
}

/// A start that fails must not be ended.
unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: attributes are readable (the verb's contract).
    if unsafe { (*attr).comp_mask } != 0 {
        return libc::EINVAL;
    }
    // SAFETY: `cq` is live, and this thread polls it (the verb's contract).
    let errno = unsafe {
        show(cq, |state, cq| {
            state.check_ended(cq);
            state.set_started(cq, true);
        })
    };
    if errno != 0 {
        // SAFETY: `cq` is live (the verb's contract).
        unsafe { verb(cq.cast::<ibv_cq>(), |state, cq| state.set_started(cq, false)) };
    }
    errno
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: `cq` is live, and this thread polls it (the verb's contract).
    unsafe {
        show(cq, |state, cq| {
            if state.habits.is_rxe() {
                broken("librxe loses completions in ibv_next_poll (R14.3)");
            }
            state.check_started(cq);
        })
    }
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: `cq` is live, `create` made it as a `Queue`, and this thread polls it (the verb's
    // contract).
    unsafe {
        (*cq.cast::<Queue>()).shown = None;
        verb(cq.cast::<ibv_cq>(), |state, cq| {
            state.check_started(cq);
            state.set_started(cq, false);
        });
    }
}

/// The value of a field that has no meaning for the completion.
const GARBAGE: u64 = 0xb7b7_b7b7_b7b7_b7b7;

/// # Safety
/// `cq` is live and was made by `create_cq_ex`, and this thread polls it.
unsafe fn read(cq: *mut ibv_cq_ex, field: impl Fn(&Shown) -> Option<u64>) -> u64 {
    // SAFETY: `create` made it as a `Queue`, and no other thread polls it (this function's
    // contract).
    let shown = unsafe { &(*cq.cast::<Queue>()).shown };
    let Some(shown) = shown else {
        broken("a field is read while no completion is shown");
        return GARBAGE;
    };
    field(shown).unwrap_or(GARBAGE)
}

macro_rules! read {
    ($($name:ident: $type:ty = $shown:ident => $value:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
            // SAFETY: the function is only in the tables of queues made by `create_cq_ex`. It is
            // called with a live one, by the thread that polls it (the verb's contract).
            unsafe { read(cq, |$shown| $value) as $type }
        }
    )*};
}

read! {
    read_opcode: ibv_wc_opcode::Type = shown => shown.fields.opcode.map(u64::from);
    read_vendor_err: u32 = shown => shown.fields.vendor_err.map(u64::from);
    read_byte_len: u32 = shown => shown.fields.byte_len.map(u64::from);
    read_imm_data: u32 = shown => shown.fields.extra.map(u64::from);
    read_qp_num: u32 = shown => Some(shown.qp_num.into());
    read_src_qp: u32 = shown => shown.fields.src_qp.map(u64::from);
    read_wc_flags: c_uint = shown => shown.fields.wc_flags.map(u64::from);
    read_slid: u32 = shown => shown.fields.slid.map(u64::from);
    read_sl: u8 = shown => shown.fields.sl.map(u64::from);
    read_dlid_path_bits: u8 = shown => shown.fields.dlid_path_bits.map(u64::from);
    read_completion_ts: u64 = shown => Some(shown.time.ticks);
    read_completion_wallclock_ns: u64 = shown => Some(shown.time.wallclock_ns);
}
