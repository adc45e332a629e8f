//! SRD: queue pairs of EFA's own kind, `efadv_create_qp_ex`, and sessions in which each work
//! request has its destination.
//!
//! The function is in libefa, which programs are not linked to: it is looked up when used. It is
//! the library that libibverbs loads as the provider, so nothing is there twice.

#![allow(non_camel_case_types)] // C's names

use std::ffi::c_int;
use std::mem::{MaybeUninit, size_of};
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::control::{Created, created, status};
use super::create_qp_ex::ibv_qp_init_attr_ex;
use super::data::{Build, Each, Verb, apart, arm};
use super::session::{Session, call, extended, ibv_data_buf, ibv_qp_ex, piece, session, whole};
use super::symbols::symbols;
use super::types::*;

/// `EFADV_QP_DRIVER_TYPE_SRD`.
const SRD: u32 = 0;

/// `EFADV_QP_FLAGS_INLINE_WRITE`: inline data may be written, too.
pub const INLINE_WRITE: u16 = 1 << 1;

/// C's struct, as of rdma-core 26, whose flags were reserved then. What is newer behind it is not
/// asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct efadv_qp_init_attr {
    pub comp_mask: u64,
    pub driver_qp_type: u32,
    pub flags: u16,
    pub sl: u8,
    pub reserved: u8,
}

static_assertions::const_assert_eq!(size_of::<efadv_qp_init_attr>(), 16);

/// C's struct. The number of an address handle, which receives name.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct efadv_ah_attr {
    pub comp_mask: u64,
    pub ahn: u16,
    pub reserved: [u8; 6],
}

static_assertions::const_assert_eq!(size_of::<efadv_ah_attr>(), 16);

symbols! {
    /// Lacking before rdma-core 26, and where libefa is not installed.
    unsafe struct Symbols {
        create: unsafe extern "C" fn(
            *mut ibv_context,
            *mut ibv_qp_init_attr_ex,
            *mut efadv_qp_init_attr,
            u32,
        ) -> *mut ibv_qp = c"efadv_create_qp_ex",
        query_ah: unsafe extern "C" fn(*mut ibv_ah, *mut efadv_ah_attr, u32) -> c_int
            = c"efadv_query_ah",
    }
}

/// The functions of libefa, which is loaded now, once and for good. (Not before they are used: a
/// program that has nothing to do with EFA does not load it.)
fn efa() -> Symbols {
    static LOADED: OnceLock<()> = OnceLock::new();
    // Miri loads no libraries.
    if !cfg!(miri) {
        // SAFETY: the name is a C string. What the library does when it is loaded is what it does
        // in any program that is linked to it, or has such a device.
        LOADED.get_or_init(|| unsafe {
            libc::dlopen(c"libefa.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        });
    }
    symbols()
}

/// `efadv_create_qp_ex`: ENOSYS if there is no libefa that has it, EOPNOTSUPP if the device is not
/// an EFA, or lacks an operation. `cap` returns what was granted.
///
/// # Safety
/// The domain of `init` is live and of libibverbs, and so is what else it names.
pub(crate) unsafe fn create_srd_qp(init: &mut ibv_qp_init_attr_ex, flags: u16) -> Created<ibv_qp> {
    let create = efa().create.ok_or(libc::ENOSYS)?;
    let mut attr =
        efadv_qp_init_attr { comp_mask: 0, driver_qp_type: SRD, flags, sl: 0, reserved: 0 };
    // SAFETY: the domain and its context are live, and so is what the attributes name, which are a
    // reference's and a local (this function's contract).
    unsafe {
        let context = (*init.pd).context;
        extended(created(create(context, init, &mut attr, size_of_val(&attr) as u32))?)
    }
}

/// `efadv_query_ah`: the device's number of an address handle; ENOSYS as above.
///
/// # Safety
/// `ah` is live and of libibverbs.
pub(crate) unsafe fn ah_number(ah: *mut ibv_ah) -> Result<u16, c_int> {
    let query = efa().query_ah.ok_or(libc::ENOSYS)?;
    let mut attr = efadv_ah_attr::default();
    // SAFETY: the address handle is live (this function's contract), and the attributes a local.
    match unsafe { query(ah, &mut attr, size_of_val(&attr) as u32) } {
        0 => Ok(attr.ahn),
        code => Err(status(code)),
    }
}

/// Posts a list in one session, as [`Session`] does, each work request with its destination. What
/// has remote memory has it [`apart`]. (A queue pair that is not SRD has a `Session`.)
#[doc(hidden)]
pub enum SrdSession {}

// SAFETY: as for `Session`; a session that is refused is refused as a whole.
unsafe impl Verb for SrdSession {
    type Object = ibv_qp;
    type Wr = ibv_send_wr;
    const NAME: &'static str = "ibv_wr_complete";

    type Known = <Session as Verb>::Known;

    #[inline(always)]
    unsafe fn known(wr: *const ibv_send_wr) -> Self::Known {
        // SAFETY: `wr` is emitted (this function's contract), which is all that `Session` asks for.
        unsafe { Session::known(wr) }
    }

    const KNOWS: bool = Session::KNOWS;

    #[inline(always)]
    unsafe fn show(known: &Self::Known, wr: *mut ibv_send_wr) {
        // SAFETY: `wr` is writable (this function's contract), and `Session` copies into it what it
        // copied before, a whole work request.
        unsafe { Session::show(known, wr) }
    }

    #[inline(always)]
    unsafe fn flag(known: &mut Self::Known, flags: u32) {
        // SAFETY: known of what was emitted (this function's contract).
        unsafe { Session::flag(known, flags) };
    }

    #[inline(always)]
    unsafe fn post_known(qp: *mut ibv_qp, known: &impl Each<Self::Known>) -> Option<c_int> {
        // SAFETY: `qp` is live, and `known` a list that it may have (this function's contract). One
        // of DRIVER was made by `create_srd_qp`, so it has the functions of a session; the session
        // is open while the list is built.
        unsafe {
            if (*qp).qp_type != ibv_qp_type::IBV_QPT_DRIVER {
                return Session::post_known(qp, known);
            }
            let qp = qp.cast::<ibv_qp_ex>();
            call!(qp.wr_start());
            known.each(&Addressed(qp));
            Some(call!(qp.wr_complete()))
        }
    }

    #[inline(always)]
    unsafe fn post(qp: *mut ibv_qp, first: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> c_int {
        // SAFETY: the list is one that the queue pair may have, of either kind: it has the
        // functions of each operation.
        unsafe {
            if (*qp).qp_type != ibv_qp_type::IBV_QPT_DRIVER {
                return Session::post(qp, first, bad);
            }
            whole(session(qp.cast(), first, |qp, wr| build(qp, wr)), first, bad)
        }
    }
}

/// Builds known work requests, as `build` does: a session of this queue pair is open, and it may
/// have each of them, which is emitted.
struct Addressed(*mut ibv_qp_ex);

impl Build<MaybeUninit<ibv_send_wr>> for Addressed {
    #[inline(always)]
    unsafe fn build(&self, known: &MaybeUninit<ibv_send_wr>) {
        // SAFETY: the session of the queue pair is open, and it may have the work request, which is
        // emitted (asked of the caller by `Addressed`). `build` only reads it.
        unsafe { build(self.0, known.as_ptr().cast_mut()) }
    }
}

/// Builds a work request: its operation, its destination and its data.
///
/// # Safety
/// A session of the SRD queue pair is open, and it may have the work request, which is emitted.
#[inline(always)]
unsafe fn build(qp: *mut ibv_qp_ex, wr: *mut ibv_send_wr) {
    use ibv_wr_opcode::*;
    // SAFETY: the queue pair has the functions of the operations that it was created for, and those
    // of sessions. The fields that the opcode reads are emitted, and a destination with each.
    unsafe {
        (*qp).wr_id = (*wr).wr_id;
        (*qp).wr_flags = (*wr).send_flags;
        let word = (&raw const (*wr).imm_data_invalidated_rkey_union).cast::<u32>();
        let rdma = arm::<raw::rdma_t>(wr);
        let mut to = apart(wr);
        match (*wr).opcode {
            IBV_WR_SEND => {
                to = arm::<ud_t>(wr);
                call!(qp.wr_send());
            }
            IBV_WR_SEND_WITH_IMM => {
                to = arm::<ud_t>(wr);
                call!(qp.wr_send_imm(*word));
            }
            IBV_WR_RDMA_WRITE => call!(qp.wr_rdma_write((*rdma).rkey, (*rdma).remote_addr)),
            IBV_WR_RDMA_WRITE_WITH_IMM => {
                call!(qp.wr_rdma_write_imm((*rdma).rkey, (*rdma).remote_addr, *word));
            }
            IBV_WR_RDMA_READ => call!(qp.wr_rdma_read((*rdma).rkey, (*rdma).remote_addr)),
            opcode => return debug_assert!(false, "SRD has no opcode {opcode}"),
        }
        let ud_t { ah, remote_qpn, remote_qkey } = *to;
        call!(qp.wr_set_ud_addr(ah, remote_qpn, remote_qkey));
        // One element at most (R27.6).
        let (list, count) = ((*wr).sg_list, (*wr).num_sge as usize);
        match ((*wr).send_flags & ibv_send_flags::IBV_SEND_INLINE.0 != 0, count) {
            (false, 1) => call!(qp.wr_set_sge((*list).lkey, (*list).addr, (*list).length)),
            (false, _) => call!(qp.wr_set_sge_list(count, list)),
            (true, 1) => {
                let ibv_data_buf { addr, length } = piece(list);
                call!(qp.wr_set_inline_data(addr, length));
            }
            (true, _) => call!(qp.wr_set_inline_data(NonNull::dangling().as_ptr(), 0)),
        }
    }
}

#[cfg(test)]
mod tests;
