//! Extended verbs: the functions of `struct verbs_context`, and the structs that newer libraries
//! extended. Their names are C's.
//!
//! A `verbs_context` ends with the `ibv_context` that programs see, and grows at its head. So an
//! operation has a fixed distance before the context, in every rdma-core. It exists if the
//! library's `sz` reaches that far and the pointer is not null. `bindings::agreement` compares the
//! distances with the C headers.

#![allow(non_camel_case_types)] // C's names

use std::ffi::{c_int, c_void};
use std::mem::size_of;

use super::control::{Answer, done};
use super::types::*;

/// The distances of operations before the context, in bytes.
pub const QUERY_PORT: usize = 320;
pub const QUERY_DEVICE_EX: usize = 104;
const SZ: usize = 8;
/// `sz` of a `verbs_context` without operations: it includes `context` itself, as C counts it.
pub const BARE: usize = 328;

/// An extended operation of a libibverbs device; EOPNOTSUPP if the library or the provider lacks
/// it.
///
/// # Safety
/// `context` is live and belongs to libibverbs. `F` is the type of the optional operation at
/// `distance`, which is one of the constants above, or of `memory`.
pub(crate) unsafe fn op<F: Copy>(context: *mut ibv_context, distance: usize) -> Result<F, c_int> {
    // SAFETY: a context whose `abi_compat` is all ones is the end of a `verbs_context`. The `sz`
    // before it gives its size. An operation within that size has the type that the caller names,
    // and a null function is a `None`.
    unsafe {
        let is_extended = (*context).abi_compat.addr() == usize::MAX;
        if is_extended && context.byte_sub(SZ).cast::<usize>().read() >= BARE + distance {
            let operation = context.byte_sub(distance).cast::<Option<F>>().read();
            return operation.ok_or(libc::EOPNOTSUPP);
        }
    }
    Err(libc::EOPNOTSUPP)
}

/// `struct ibv_port_attr` as of rdma-core 49, which added `active_speed_ex` at the end. It does not
/// depend on the headers that the bindings were made from.
#[repr(C)]
pub union PortAttr {
    c: ibv_port_attr,
    words: [u32; 14],
}

static_assertions::const_assert!(size_of::<ibv_port_attr>() <= 56);

impl PortAttr {
    pub fn new(c: ibv_port_attr, active_speed_ex: u32) -> Self {
        let mut attr = PortAttr { words: [0; 14] };
        attr.c = c;
        // SAFETY: all of the union was written, and consists of integers.
        unsafe { attr.words[13] = active_speed_ex };
        attr
    }

    pub fn get(&self) -> &ibv_port_attr {
        // SAFETY: all of the union is written when it is made, and consists of integers.
        unsafe { &self.c }
    }

    pub fn get_mut(&mut self) -> &mut ibv_port_attr {
        // SAFETY: all of the union is written when it is made, and consists of integers.
        unsafe { &mut self.c }
    }

    /// The speed of a lane, for speeds that need more than 8 bits; 0 if the library does not report
    /// it.
    pub fn active_speed_ex(&self) -> u32 {
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

/// `ibv_query_port`, like C's inline function. The exported function has the struct of IBVERBS_1.1
/// compiled in, which ends with `flags`.
///
/// # Safety
/// As for the verb: `context` is live and belongs to libibverbs.
pub(crate) unsafe fn query_port(context: *mut ibv_context, port: u8) -> Answer<PortAttr> {
    let mut attr = PortAttr::default();
    // SAFETY: the context is live (the verb's contract), and the attributes are a local. The
    // operation receives the size of `attr`; the exported function writes no more than 48 bytes.
    done(unsafe {
        match op::<QueryPort>(context, QUERY_PORT) {
            Ok(query) => query(context, port, &mut attr, size_of::<PortAttr>()),
            Err(_) => raw_query_port(context, port, (&raw mut attr).cast()),
        }
    })?;
    Ok(attr)
}

macro_rules! structs {
    ($($name:ident { $($field:ident: $t:ty,)* })*) => {$(
        /// C's struct, as of rdma-core 44.
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            $(pub $field: $t,)*
        }

        // SAFETY: it consists of integers, and structs and arrays of these.
        unsafe impl Zeroes for $name {}
    )*};
}

structs! {
    ibv_odp_caps {
        general_caps: u64,
        // RC, UC, UD.
        per_transport_caps: [u32; 3],
    }
    ibv_tso_caps { max_tso: u32, supported_qpts: u32, }
    ibv_rss_caps {
        supported_qpts: u32,
        max_rwq_indirection_tables: u32,
        max_rwq_indirection_table_size: u32,
        rx_hash_fields_mask: u64,
        rx_hash_function: u8,
    }
    ibv_packet_pacing_caps {
        qp_rate_limit_min: u32,
        qp_rate_limit_max: u32,
        supported_qpts: u32,
    }
    ibv_tm_caps {
        max_rndv_hdr_size: u32,
        max_num_tags: u32,
        flags: u32,
        max_ops: u32,
        max_sge: u32,
    }
    ibv_cq_moderation_caps { max_cq_count: u16, max_cq_period: u16, }
    ibv_pci_atomic_caps { fetch_add: u16, swap: u16, compare_swap: u16, }
    ibv_device_attr_ex {
        orig_attr: ibv_device_attr,
        comp_mask: u32,
        odp_caps: ibv_odp_caps,
        completion_timestamp_mask: u64,
        hca_core_clock: u64,
        device_cap_flags_ex: u64,
        tso_caps: ibv_tso_caps,
        rss_caps: ibv_rss_caps,
        max_wq_type_rq: u32,
        packet_pacing_caps: ibv_packet_pacing_caps,
        raw_packet_caps: u32,
        tm_caps: ibv_tm_caps,
        cq_mod_caps: ibv_cq_moderation_caps,
        max_dm_size: u64,
        pci_atomic_caps: ibv_pci_atomic_caps,
        xrc_odp_caps: u32,
        phys_port_cnt_ex: u32,
    }
}

type QueryDeviceEx =
    unsafe extern "C" fn(*mut ibv_context, *const c_void, *mut ibv_device_attr_ex, usize) -> c_int;

/// `ibv_query_device_ex`, like C's inline function. Without the operation, `ibv_query_device`
/// returns the original attributes, and the others are 0.
///
/// # Safety
/// As for the verb: `context` is live and belongs to libibverbs.
pub(crate) unsafe fn query_device_ex(context: *mut ibv_context) -> Answer<ibv_device_attr_ex> {
    // SAFETY: the context is live (the verb's contract).
    if let Some(answer) = unsafe { ask_device(context) } {
        return answer;
    }
    let mut attr = zeroed::<ibv_device_attr_ex>();
    // SAFETY: the context is live (the verb's contract), and the attributes are a local.
    done(unsafe { raw::ibv_query_device(context, &mut attr.orig_attr) }).map(|()| attr)
}

/// The operation's result; `None` if the library does not have the operation.
///
/// # Safety
/// As for `query_device_ex`.
unsafe fn ask_device(context: *mut ibv_context) -> Option<Answer<ibv_device_attr_ex>> {
    let mut attr = zeroed::<ibv_device_attr_ex>();
    // SAFETY: the context is live (this function's contract), and the attributes are a local. The
    // operation receives their size, and no input.
    let code = unsafe {
        let query = op::<QueryDeviceEx>(context, QUERY_DEVICE_EX).ok()?;
        query(context, std::ptr::null(), &mut attr, size_of::<ibv_device_attr_ex>())
    };
    let is_absent = matches!(code, libc::EOPNOTSUPP | libc::ENOSYS);
    (!is_absent).then(|| done(code).map(|()| attr))
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::tests::{ANSWER, answered, context, seen};

    const WORDS: usize = QUERY_PORT / 8;

    /// An older library fills only its own fields.
    unsafe extern "C" fn port(
        _: *mut ibv_context,
        port: u8,
        _: *mut PortAttr,
        size: usize,
    ) -> c_int {
        answered(format!("port {port}, {size} bytes"))
    }

    #[test]
    fn port_attributes_that_a_library_lacks_are_zero() {
        let context = context::<WORDS>(BARE + QUERY_PORT, &[(QUERY_PORT, port as *const ())]);
        // SAFETY: the context has the operation.
        let attr = unsafe { query_port(context, 2) }.unwrap();
        assert_eq!((attr.get().lid, attr.active_speed_ex()), (0, 0));
        ANSWER.set(libc::EINVAL);
        // SAFETY: the context has the operation.
        assert_eq!(unsafe { query_port(context, 3) }.err(), Some(libc::EINVAL));
        assert_eq!(seen(), ["port 2, 56 bytes", "port 3, 56 bytes"]);
    }

    unsafe extern "C" fn device(
        _: *mut ibv_context,
        input: *const c_void,
        attr: *mut ibv_device_attr_ex,
        size: usize,
    ) -> c_int {
        // SAFETY: the caller passes writable attributes.
        unsafe { (*attr).max_dm_size = 7 };
        assert!(input.is_null() && size == size_of::<ibv_device_attr_ex>());
        answered("device")
    }

    #[test]
    fn device_attributes_that_a_library_lacks_are_zero() {
        let ask = |size, answer| {
            ANSWER.set(answer);
            let context = context::<WORDS>(size, &[(QUERY_DEVICE_EX, device as *const ())]);
            // SAFETY: the context has the operation, or is too short for it.
            let answer = unsafe { ask_device(context) };
            answer.map(|answer| answer.map(|attr| (attr.max_dm_size, attr.tso_caps.max_tso)))
        };
        assert_eq!(ask(BARE + QUERY_DEVICE_EX, 0), Some(Ok((7, 0))));
        assert_eq!(ask(BARE + QUERY_DEVICE_EX, libc::EIO), Some(Err(libc::EIO)));
        assert_eq!(seen(), ["device"; 2]);
        assert_eq!(ask(BARE, 0), None);
        assert_eq!(seen(), [""; 0]);
        for lacks in [libc::EOPNOTSUPP, libc::ENOSYS] {
            assert_eq!(ask(BARE + QUERY_DEVICE_EX, lacks), None);
        }
    }

    type Operation = extern "C" fn() -> c_int;

    extern "C" fn operation() -> c_int {
        17
    }

    /// The end of a `verbs_context`: pointers, the last of which is `sz`, and the context.
    #[repr(C)]
    struct Fake {
        head: [*const c_void; 64],
        context: ibv_context,
    }

    /// The operation found in a context with this `abi_compat` and `sz`.
    fn found(abi_compat: usize, sz: usize, operation: *const c_void) -> Option<c_int> {
        const WORD: usize = size_of::<*const c_void>();
        let mut fake = Fake { head: [ptr::null(); 64], context: zeroed() };
        fake.context.abi_compat = ptr::without_provenance_mut(abi_compat);
        fake.head[64 - SZ / WORD] = ptr::without_provenance(sz);
        fake.head[64 - QUERY_PORT / WORD] = operation;
        let fake = &raw mut fake;
        // SAFETY: the context comes after the pointers, as in a `verbs_context`, within one struct.
        // The operation has the named type.
        let op = unsafe { op::<Operation>(&raw mut (*fake).context, QUERY_PORT) };
        op.map(|op| op()).ok()
    }

    #[test]
    fn an_operation_needs_context_library_and_provider() {
        let there = operation as *const c_void;
        for (abi_compat, sz, operation, expected) in [
            (usize::MAX, BARE + QUERY_PORT, there, Some(17)),
            (usize::MAX, BARE + QUERY_PORT + 64, there, Some(17)),
            (usize::MAX, BARE + QUERY_PORT - 1, there, None),
            (usize::MAX, 0, there, None),
            (usize::MAX, BARE + QUERY_PORT, ptr::null(), None),
            // A context from before extended verbs existed.
            (0, BARE + QUERY_PORT, there, None),
        ] {
            assert_eq!(found(abi_compat, sz, operation), expected, "{abi_compat:#x}, {sz}");
        }
    }
}
