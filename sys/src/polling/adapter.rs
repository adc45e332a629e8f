//! Polls a completion queue of `ibv_create_cq_ex` by extended polling.
//!
//! The adapter is a C object like the placeholders: an `ibv_cq` whose context has a `poll_cq` of
//! this file. It reads the device's completions between start and end into the inbox. So polls, the
//! cold path, drains and waits use the same code for all queues, and ordinary queues pay nothing.
//! The program's code never runs between start and end. So an end follows each start, even if the
//! program panics or leaks a value, and the provider's lock is always released.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ptr::NonNull;

use crate::counters::word;
use crate::polling::{self as c, ibv_cq_ex};
use crate::types::{
    ibv_context, ibv_cq, ibv_wc, ibv_wc_flags, ibv_wc_status, imm_data_invalidated_rkey_union_t,
    zeroed,
};

/// The maximum number of completions of one poll: as many as an inbox has.
pub const ROWS: usize = 16;

/// The extra fields that the completions of a queue have.
pub trait Fields: 'static {
    /// The flags, without `wc_flags::OURS`.
    const WC_FLAGS: u64;
}

/// The extra fields of one completion.
#[derive(Clone, Copy, Default)]
pub struct Row {
    pub completion_ts: u64,
    pub completion_wallclock_ns: u64,
    pub dlid_path_bits: u8,
}

/// # Invariants
/// - `cq` is first, its context is `context`, and neither is written after `new`. An adapter does
///   not move.
/// - `device` has the functions of the owner's `wc_flags`, and `context.ops.poll_cq` reads no other
///   fields.
/// - A row belongs to the completion of the same index in the inbox. Only the holder of the
///   completion queue uses it.
#[repr(C)]
struct Adapter {
    cq: ibv_cq,
    context: ibv_context,
    device: *mut ibv_cq_ex,
    rows: UnsafeCell<[Row; ROWS]>,
}

/// The owner of an adapter, which lives as long as the inbox that is polled through it.
pub struct Extended {
    adapter: NonNull<Adapter>,
    /// The fields of its rows.
    pub wc_flags: u64,
}

// SAFETY: the adapter owns its memory, and any thread may use the C object behind it (R17.1).
unsafe impl Send for Extended {}
// SAFETY: rows are used by one thread at a time (invariant), and nothing else is written.
unsafe impl Sync for Extended {}

impl Extended {
    /// # Safety
    /// `device` is live for as long as this is polled. It has the functions of the fields `F` and
    /// of `wc_flags::OURS`.
    ///
    /// `is_single`: each completion has a separate start and end (R14.3).
    pub unsafe fn new<F: Fields>(device: NonNull<ibv_cq_ex>, is_single: bool) -> Extended {
        let mut context = zeroed::<ibv_context>();
        context.ops.poll_cq = Some(if is_single { poll::<F, true> } else { poll::<F, false> });
        let adapter = Box::into_raw(Box::new(Adapter {
            cq: zeroed(),
            context,
            device: device.as_ptr(),
            rows: UnsafeCell::default(),
        }));
        // SAFETY: a box is not null. It was just created, and a pointer to a part of it is taken
        // without a reference.
        unsafe {
            (*adapter).cq.context = &raw mut (*adapter).context;
            Extended { adapter: NonNull::new_unchecked(adapter), wc_flags: F::WC_FLAGS }
        }
    }

    /// The queue to poll.
    pub fn queue(&self) -> *mut ibv_cq {
        // A pointer to the whole adapter, because `poll` derives the adapter from it.
        self.adapter.as_ptr().cast()
    }

    /// The row of the completion at this index of the inbox, valid to read while the completion is.
    pub fn row(&self, index: usize) -> *const Row {
        debug_assert!(index < ROWS);
        // SAFETY: the adapter is live; no reference to the rows is made.
        unsafe { (&raw const (*self.adapter.as_ptr()).rows).cast::<Row>().wrapping_add(index) }
    }
}

impl Drop for Extended {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it as a box. Its inbox is gone, so nothing polls it.
        drop(unsafe { Box::from_raw(self.adapter.as_ptr()) });
    }
}

/// `ibv_poll_cq` of an adapter: up to `most` completions, or -1 if the device's queue is in error.
///
/// # Safety
/// `cq` is an adapter of fields `F`, which the caller may poll, and `wc` is the beginning of its
/// inbox, with room for `most` completions; `most` is at least 1.
unsafe extern "C" fn poll<F: Fields, const IS_SINGLE: bool>(
    cq: *mut ibv_cq,
    most: c_int,
    mut wc: *mut ibv_wc,
) -> c_int {
    let adapter = cq.cast::<Adapter>();
    // SAFETY: the adapter is live (this function's contract). Only its rows are written, and this
    // thread owns them while it polls. No reference to them is made.
    let (device, mut row) =
        unsafe { ((*adapter).device, (&raw mut (*adapter).rows).cast::<Row>()) };
    let mut attr = c::ibv_poll_cq_attr { comp_mask: 0 };
    // SAFETY: the device's queue is live and has the functions of `F` (invariant). No other thread
    // polls it. It is not started, because only this function starts it, and then ends it.
    let errno = unsafe { c::start_poll(device, &mut attr) };
    if errno != 0 {
        return not_started(errno);
    }
    let mut room = most;
    loop {
        // SAFETY: the queue is started, and its last start or next succeeded, so it shows a
        // completion. There is room for `most`, of which at least one is left.
        unsafe { read::<F>(device, wc, row) };
        room -= 1;
        if room == 0 {
            break;
        }
        // SAFETY: they stay within the inbox and its rows, because there is room. (Moving pointers
        // cost 8 instructions a completion less than an index.)
        unsafe { (wc, row) = (wc.add(1), row.add(1)) };
        if IS_SINGLE {
            // SAFETY: the queue is started before `end_poll`, and ended before `start_poll`.
            let next = unsafe {
                c::end_poll(device);
                c::start_poll(device, &mut attr)
            };
            if next != 0 {
                // The next poll finds the error again and reports it.
                return most - room;
            }
        // SAFETY: the queue is started.
        } else if unsafe { c::next_poll(device) } != 0 {
            break;
        }
    }
    // SAFETY: the queue is started (R14.2: also after a next that found nothing).
    unsafe { c::end_poll(device) };
    most - room
}

/// The result of a poll if `ibv_start_poll` failed.
#[cold]
fn not_started(errno: c_int) -> c_int {
    if errno == libc::ENOENT { 0 } else { -1 }
}

/// The flags of a completion that has immediate data or an invalidated key.
const HAS_WORD: u32 = ibv_wc_flags::IBV_WC_WITH_IMM.0 | ibv_wc_flags::IBV_WC_WITH_INV.0;

/// The same for connected transports, where Soft-RoCE sets IBV_WC_IP_CSUM_OK with a key
/// (`Completion::invalidated_rkey`). On datagrams, other devices set that flag with its own
/// meaning.
const HAS_WORD_CONNECTED: u32 = HAS_WORD | ibv_wc_flags::IBV_WC_IP_CSUM_OK.0;

/// Reads the current completion of a queue: only the fields that ibv_poll_cq(3) promises for it,
/// because each field is a call.
///
/// # Safety
/// `device` is live, is started, shows a completion, and has the functions of `F`. `wc` and `row`
/// are writable.
#[inline(always)]
unsafe fn read<F: Fields>(device: *mut ibv_cq_ex, wc: *mut ibv_wc, row: *mut Row) {
    // SAFETY: `device` shows a completion and has the functions of `F`, and `wc` and `row` are
    // writable (this function's contract). Fields are written one by one, without a reference to
    // the rest, which may be uninitialised.
    unsafe {
        let (wr_id, status) = ((*device).wr_id, (*device).status);
        (*wc).wr_id = wr_id;
        (*wc).status = status;
        if status != ibv_wc_status::IBV_WC_SUCCESS {
            (*wc).qp_num = c::read_qp_num(device);
            (*wc).vendor_err = c::read_vendor_err(device);
            return;
        }
        (*wc).qp_num = c::read_qp_num(device);
        (*wc).opcode = c::read_opcode(device);
        if F::WC_FLAGS & c::wc_flags::COMPLETION_TIMESTAMP != 0 {
            (*row).completion_ts = c::read_completion_ts(device);
        }
        if F::WC_FLAGS & c::wc_flags::COMPLETION_TIMESTAMP_WALLCLOCK != 0 {
            (*row).completion_wallclock_ns = c::read_completion_wallclock_ns(device);
        }
        let word = wr_id as usize;
        if word & word::RECEIVE == 0 {
            return;
        }
        (*wc).byte_len = c::read_byte_len(device);
        let flags = c::read_wc_flags(device);
        (*wc).wc_flags = flags;
        let has_word = if word & word::DATAGRAM == 0 { HAS_WORD_CONNECTED } else { HAS_WORD };
        if flags & has_word != 0 {
            let imm_data = c::read_imm_data(device);
            (*wc).imm_data_invalidated_rkey_union = imm_data_invalidated_rkey_union_t { imm_data };
        }
        if word & word::DATAGRAM != 0 {
            (*wc).src_qp = c::read_src_qp(device);
            (*wc).slid = c::read_slid(device) as u16;
            (*wc).sl = c::read_sl(device);
            if F::WC_FLAGS & c::wc_flags::DLID_PATH_BITS != 0 {
                (*row).dlid_path_bits = c::read_dlid_path_bits(device);
            }
        }
    }
}
