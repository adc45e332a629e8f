//! Extended polling: `ibv_create_cq_ex`, an extended operation, and the functions of its completion
//! queues, which C calls in inline functions.

#![allow(non_camel_case_types)] // C's names

pub mod adapter;

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr;

use super::control::{Created, created};
use super::extended::op;
use super::types::*;

/// The distance of the operation before the context, in bytes; see `extended`.
pub const CREATE_CQ_EX: usize = 120;

/// `IBV_CQ_INIT_ATTR_MASK_FLAGS`: `flags` of a completion queue are valid.
pub const MASK_FLAGS: u32 = 1;
/// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`.
pub const SINGLE_THREADED: u32 = 1;

/// The bits of `enum ibv_create_cq_wc_flags`, without their prefix.
pub mod wc_flags {
    pub const BYTE_LEN: u64 = 1 << 0;
    pub const IMM: u64 = 1 << 1;
    pub const QP_NUM: u64 = 1 << 2;
    pub const SRC_QP: u64 = 1 << 3;
    pub const SLID: u64 = 1 << 4;
    pub const SL: u64 = 1 << 5;
    pub const DLID_PATH_BITS: u64 = 1 << 6;
    pub const COMPLETION_TIMESTAMP: u64 = 1 << 7;
    pub const COMPLETION_TIMESTAMP_WALLCLOCK: u64 = 1 << 11;
    /// The fields that completions of this crate always have.
    pub const OURS: u64 = BYTE_LEN | IMM | QP_NUM | SRC_QP | SLID | SL;
}

/// C's struct, as of rdma-core 29. `MASK_FLAGS` validates the fields before `parent_domain`.
#[repr(C)]
pub struct ibv_cq_init_attr_ex {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut ibv_pd,
}

/// C's struct.
#[repr(C)]
pub struct ibv_poll_cq_attr {
    pub comp_mask: u32,
}

type Read<T> = Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> T>;

/// C's struct, as of rdma-core 26: a completion queue (`ibv_cq_ex_to_cq`), the current completion,
/// and functions. Functions for fields that were not requested are null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_cq_ex {
    pub cq: ibv_cq,
    pub comp_mask: u32,
    pub status: ibv_wc_status::Type,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
    pub next_poll: Read<c_int>,
    pub end_poll: Read<()>,
    pub read_opcode: Read<ibv_wc_opcode::Type>,
    pub read_vendor_err: Read<u32>,
    pub read_byte_len: Read<u32>,
    pub read_imm_data: Read<u32>,
    pub read_qp_num: Read<u32>,
    pub read_src_qp: Read<u32>,
    pub read_wc_flags: Read<c_uint>,
    pub read_slid: Read<u32>,
    pub read_sl: Read<u8>,
    pub read_dlid_path_bits: Read<u8>,
    pub read_completion_ts: Read<u64>,
    pub read_cvlan: Read<u16>,
    pub read_flow_tag: Read<u32>,
    pub read_tm_info: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut c_void)>,
    pub read_completion_wallclock_ns: Read<u64>,
}

// SAFETY: it consists of an `ibv_cq`, integers, and functions that may be null.
unsafe impl Zeroes for ibv_cq_ex {}

/// The parameters of a completion queue.
#[derive(Clone, Copy)]
pub struct CqAttr {
    pub cqe: c_int,
    pub channel: *mut ibv_comp_channel,
    pub vector: c_int,
    pub wc_flags: u64,
    pub is_single_threaded: bool,
}

type CreateCqEx =
    unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;

/// `ibv_create_cq_ex`, like C's inline function. The result begins with an `ibv_cq`, and is
/// destroyed as one. `ibv_poll_cq` can poll it too.
///
/// # Safety
/// Context and channel are live (or the channel is null) and belong to libibverbs. If the queue is
/// to be single-threaded, calls on it never overlap, neither with each other nor with the
/// destruction, reset or modification of a queue pair on it.
pub(crate) unsafe fn create_cq_ex(context: *mut ibv_context, attr: CqAttr) -> Created<ibv_cq_ex> {
    let mut attr = ibv_cq_init_attr_ex {
        cqe: attr.cqe as u32,
        cq_context: ptr::null_mut(),
        channel: attr.channel,
        comp_vector: attr.vector as u32,
        wc_flags: attr.wc_flags,
        comp_mask: if attr.is_single_threaded { MASK_FLAGS } else { 0 },
        flags: if attr.is_single_threaded { SINGLE_THREADED } else { 0 },
        parent_domain: ptr::null_mut(),
    };
    // SAFETY: context and channel are live (this function's contract), and the attributes are a
    // local.
    unsafe {
        let create = op::<CreateCqEx>(context, CREATE_CQ_EX)?;
        created(create(context, &mut attr))
    }
}

/// Whether the device is kernel software. Then each completion needs its own start and end (R14.3),
/// since `ibv_next_poll` of librxe before rdma-core 55 loses completions if it finds none. Sessions
/// with several elements go wrong as well (R15.10).
///
/// # Safety
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn is_software(context: *mut ibv_context) -> bool {
    // SAFETY: a live context points to its device, whose path is a C string in an array.
    let path = unsafe { CStr::from_ptr((&raw const (*(*context).device).ibdev_path).cast()) };
    // If this cannot be determined, `true` is correct too, only slower.
    let path = path.to_str().map(std::fs::canonicalize);
    !matches!(path, Ok(Ok(path)) if !path.starts_with("/sys/devices/virtual"))
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $t:ty)?) -> $out:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `cq` is live and was made by `create_cq_ex`, it has this function, and its state allows
        /// the call: start outside, all others between start and end.
        #[inline(always)]
        pub unsafe fn $name(cq: *mut ibv_cq_ex $(, $arg: $t)?) -> $out {
            // SAFETY: the function exists, and may be called now (this function's contract). The
            // pointer never changes.
            unsafe { (*cq).$name.unwrap_unchecked()(cq $(, $arg)?) }
        }
    )*};
}

calls! {
    /// `ibv_start_poll`: 0, ENOENT if there is no completion, or another errno.
    start_poll(attr: *mut ibv_poll_cq_attr) -> c_int;
    /// `ibv_next_poll`: like `start_poll`.
    next_poll() -> c_int;
    /// `ibv_end_poll`.
    end_poll() -> ();
    /// `ibv_wc_read_opcode`.
    read_opcode() -> ibv_wc_opcode::Type;
    /// `ibv_wc_read_vendor_err`.
    read_vendor_err() -> u32;
    /// `ibv_wc_read_byte_len`.
    read_byte_len() -> u32;
    /// `ibv_wc_read_imm_data`, in network byte order, or `ibv_wc_read_invalidated_rkey`.
    read_imm_data() -> u32;
    /// `ibv_wc_read_qp_num`.
    read_qp_num() -> u32;
    /// `ibv_wc_read_src_qp`.
    read_src_qp() -> u32;
    /// `ibv_wc_read_wc_flags`.
    read_wc_flags() -> c_uint;
    /// `ibv_wc_read_slid`.
    read_slid() -> u32;
    /// `ibv_wc_read_sl`.
    read_sl() -> u8;
    /// `ibv_wc_read_dlid_path_bits`.
    read_dlid_path_bits() -> u8;
    /// `ibv_wc_read_completion_ts`.
    read_completion_ts() -> u64;
    /// `ibv_wc_read_completion_wallclock_ns`.
    read_completion_wallclock_ns() -> u64;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::undocumented_unsafe_blocks)] // all objects of this file are live

    use super::*;
    use crate::types::raw::ibv_device;

    /// Kernel software is polled one completion at a time, and so are unknown devices.
    #[test]
    #[cfg(not(miri))] // Miri sees no files
    fn kernel_software_is_polled_one_by_one() {
        for (path, is_single) in [
            (c"/sys/devices/virtual", true),
            (c"/sys/devices/system", false),
            (c"/sys/devices/none such", true),
            (c"", true),
        ] {
            let (mut device, mut context) = (zeroed::<ibv_device>(), zeroed::<ibv_context>());
            for (to, from) in device.ibdev_path.iter_mut().zip(path.to_bytes_with_nul()) {
                *to = *from as _;
            }
            context.device = &raw mut device;
            assert_eq!(unsafe { is_software(&raw mut context) }, is_single, "{path:?}");
        }
    }
}
