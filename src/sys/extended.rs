//! Extended verbs: the functions of `struct verbs_context`, and the structs that newer libraries
//! made longer.
//!
//! A `verbs_context` ends with the `ibv_context` that programs know, and grows at its head. So an
//! operation lies at a fixed distance before the context, in every rdma-core, and exists if the
//! library's `sz` reaches that far and the pointer is not null. `bindings::agreement` holds the
//! distances against the C headers.

use std::ffi::c_int;
use std::mem::size_of;

use super::types::*;

/// The distances of operations before the context, bytes.
pub(crate) const QUERY_PORT: usize = 320;
const SZ: usize = 8;
/// `sz` of a `verbs_context` without operations: `context` itself, as C counts it.
const BARE: usize = 328;

/// An extended operation of a device of libibverbs; `None` if the library or the provider lacks it.
///
/// # Safety
/// `context` is live and of libibverbs. `F` is the type of the optional operation at `distance`,
/// which is one of those above.
unsafe fn op<F: Copy>(context: *mut ibv_context, distance: usize) -> Option<F> {
    // SAFETY: a context whose `abi_compat` is all ones is the end of a `verbs_context`, whose `sz`
    // lies before it, and says how far it reaches. What it reaches has the type that the caller
    // names, and a null function is a `None`.
    unsafe {
        if (*context).abi_compat.addr() != usize::MAX {
            return None;
        }
        let size = context.byte_sub(SZ).cast::<usize>().read();
        if size < BARE + distance {
            None
        } else {
            context.byte_sub(distance).cast::<Option<F>>().read()
        }
    }
}

/// `struct ibv_port_attr` as of rdma-core 49, in which `active_speed_ex` was added at its end,
/// whatever the headers are that the bindings were made of.
#[repr(C)]
pub(crate) union PortAttr {
    pub c: ibv_port_attr,
    words: [u32; 14],
}

static_assertions::const_assert!(size_of::<ibv_port_attr>() <= 56);

impl PortAttr {
    #[cfg(any(feature = "loopback", test))]
    pub(crate) fn new(c: ibv_port_attr, active_speed_ex: u32) -> Self {
        let mut attr = PortAttr { words: [0; 14] };
        attr.c = c;
        // SAFETY: all of the union was written, and consists of integers.
        unsafe { attr.words[13] = active_speed_ex };
        attr
    }

    pub(crate) fn get(&self) -> &ibv_port_attr {
        // SAFETY: all of the union is written when it is made, and consists of integers.
        unsafe { &self.c }
    }

    /// The speed of a lane, for speeds that need more than 8 bits; 0 if the library does not tell.
    pub(crate) fn active_speed_ex(&self) -> u32 {
        // SAFETY: all of the union is written when it is made, and consists of integers.
        unsafe { self.words[13] }
    }
}

impl Default for PortAttr {
    fn default() -> Self {
        PortAttr { words: [0; 14] }
    }
}

type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut PortAttr, usize) -> c_int;

/// `ibv_query_port`, as C's inline does it. The exported function has the struct of IBVERBS_1.1
/// compiled in, which ends with `flags`.
///
/// # Safety
/// As for the verb: `context` is live and of libibverbs, `attr` is writable.
pub(super) unsafe fn query_port(context: *mut ibv_context, port: u8, attr: *mut PortAttr) -> c_int {
    // SAFETY: context and attributes are the verb's. The operation is told how long `attr` is; the
    // exported function writes no more than 48 bytes.
    unsafe {
        attr.write(PortAttr::default());
        match op::<QueryPort>(context, QUERY_PORT) {
            Some(query) => query(context, port, attr, size_of::<PortAttr>()),
            None => raw_query_port(context, port, attr.cast()),
        }
    }
}
