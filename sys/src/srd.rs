//! SRD: queue pairs of EFA, created by `efadv_create_qp_ex`.
//!
//! The function is in libefa, which libibverbs loads as the provider.

#![allow(non_camel_case_types)] // C's names

use std::ffi::c_int;
use std::mem::size_of;

use super::control::{Answer, Created, created, done};
use super::create_qp_ex::ibv_qp_init_attr_ex;
use super::session::{SessionOf, extended};
use super::symbols::symbols;
use super::types::*;

/// `EFADV_QP_DRIVER_TYPE_SRD`.
const SRD: u32 = 0;

/// `EFADV_QP_FLAGS_INLINE_WRITE`: inline data may be written, too.
pub const INLINE_WRITE: u16 = 1 << 1;

/// C's struct, as of rdma-core 26, when its flags were reserved. Newer fields after it are not
/// used.
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

/// C's struct. It returns the number that receives report for an address handle.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct efadv_ah_attr {
    pub comp_mask: u64,
    pub ahn: u16,
    pub reserved: [u8; 6],
}

static_assertions::const_assert_eq!(size_of::<efadv_ah_attr>(), 16);

symbols! {
    /// Missing before rdma-core 26, and if libefa is not installed.
    unsafe struct Symbols of EFA {
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

/// `efadv_create_qp_ex`: ENOSYS if no libefa has it, EOPNOTSUPP if the device is not an EFA, or
/// lacks an operation. `cap` returns the granted limits.
///
/// # Safety
/// The domain of `init` is live and belongs to libibverbs, and so do the other objects that it
/// names.
pub(crate) unsafe fn create_srd_qp(init: &mut ibv_qp_init_attr_ex, flags: u16) -> Created<ibv_qp> {
    let create = symbols().create.ok_or(libc::ENOSYS)?;
    let mut attr =
        efadv_qp_init_attr { comp_mask: 0, driver_qp_type: SRD, flags, sl: 0, reserved: 0 };
    // SAFETY: the domain and its context are live, and so are the objects that the attributes name
    // (this function's contract). The attributes are behind a reference and in a local.
    unsafe {
        let context = (*init.pd).context;
        extended(created(create(context, init, &mut attr, size_of_val(&attr) as u32))?)
    }
}

/// `efadv_query_ah`: the device's number of an address handle; ENOSYS as above.
///
/// # Safety
/// `ah` is live and belongs to libibverbs.
pub(crate) unsafe fn ah_number(ah: *mut ibv_ah) -> Answer<u16> {
    let query = symbols().query_ah.ok_or(libc::ENOSYS)?;
    let mut attr = efadv_ah_attr::default();
    // SAFETY: the address handle is live (this function's contract), and the attributes a local.
    done(unsafe { query(ah, &mut attr, size_of_val(&attr) as u32) }).map(|()| attr.ahn)
}

/// Posts a list in one session, on a queue pair of SRD or of another kind.
#[doc(hidden)]
pub type SrdSession = SessionOf<true>;

#[cfg(test)]
mod tests;
