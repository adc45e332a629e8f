//! The functions of libibverbs and librdmacm. Each is looked up on its first call.
//!
//! Each has the name and type of the C function, and the version that a program linked today gets.
//! If the library or the function is missing, a call fails like the C function, with the errno of
//! `Library::lacking`.

// No model: every thread finds the same function.

#[cfg(feature = "cm")]
use std::ffi::c_char;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(feature = "cm")]
use libc::sockaddr;

use super::*;
#[cfg(feature = "cm")]
use crate::libraries::CM;
use crate::libraries::VERBS;

/// The return value of a function that fails. It has set errno.
trait Fails {
    const FAILED: Self;
}

impl<T> Fails for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

impl Fails for c_int {
    const FAILED: Self = -1;
}

impl Fails for c_uint {
    const FAILED: Self = 0;
}

impl Fails for () {
    const FAILED: Self = ();
}

/// Sets errno.
fn set_errno(errno: c_int) {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = errno };
}

/// Defines a function for each name, which calls the library's. Its pointer starts at `first`,
/// which looks the function up, as in lazy binding. Later calls are a load and a jump.
macro_rules! functions {
    ($library:ident; $(version $version:literal; $(
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $answer:ty)?;
    )+)+) => {$($(
        /// # Safety
        /// As for the C function.
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $answer)? {
            type Function = unsafe extern "C" fn($($type),*) $(-> $answer)?;
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(first as *mut c_void);

            #[cold]
            unsafe extern "C" fn first($($arg: $type),*) $(-> $answer)? {
                const NAME: &CStr = match CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes()
                ) {
                    Ok(name) => name,
                    Err(_) => panic!("one NUL, at the end"),
                };
                let found = $library.find(NAME, Some($version));
                if found.is_null() {
                    set_errno($library.lacking());
                    return Fails::FAILED;
                }
                FOUND.store(found, Ordering::Release);
                // SAFETY: the function of this name and version has this type. The caller upholds
                // its contract.
                unsafe { transmute::<*mut c_void, Function>(found)($($arg),*) }
            }

            // SAFETY: the pointer is `first` or the function that it found, both of this type. The
            // caller upholds the contract of the C function.
            unsafe {
                transmute::<*mut c_void, Function>(FOUND.load(Ordering::Acquire))($($arg),*)
            }
        }
    )+)+};
}

functions! {
    VERBS;

    version c"IBVERBS_1.0";
    fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;

    version c"IBVERBS_1.1";
    fn ibv_ack_async_event(event: *mut ibv_async_event);
    fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint);
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    fn ibv_close_device(context: *mut ibv_context) -> c_int;
    fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: c_int,
    ) -> *mut ibv_cq;
    fn ibv_create_qp(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    fn ibv_create_srq(pd: *mut ibv_pd, srq_init_attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
    fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
    fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    fn ibv_fork_init() -> c_int;
    fn ibv_free_device_list(list: *mut *mut ibv_device);
    fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
    fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void,
    ) -> c_int;
    fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device;
    fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int;
    fn ibv_modify_srq(
        srq: *mut ibv_srq,
        srq_attr: *mut ibv_srq_attr,
        srq_attr_mask: c_int,
    ) -> c_int;
    fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    fn ibv_query_device(context: *mut ibv_context, device_attr: *mut ibv_device_attr) -> c_int;
    fn ibv_query_gid(
        context: *mut ibv_context,
        port_num: u8,
        index: c_int,
        gid: *mut ibv_gid,
    ) -> c_int;
    fn ibv_query_pkey(
        context: *mut ibv_context,
        port_num: u8,
        index: c_int,
        pkey: *mut u16,
    ) -> c_int;
    fn ibv_query_port(
        context: *mut ibv_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> c_int;
    fn ibv_query_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: *mut ibv_qp_init_attr,
    ) -> c_int;
    fn ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int;
    fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr;
    fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int;

    version c"IBVERBS_1.13";
    fn ibv_is_fork_initialized() -> c_uint;

    version c"IBVERBS_1.8";
    fn ibv_reg_mr_iova2(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        iova: u64,
        access: c_uint,
    ) -> *mut ibv_mr;
}

#[cfg(feature = "cm")]
functions! {
    CM;

    version c"RDMACM_1.0";
    fn rdma_accept(id: *mut rdma_cm_id, conn_param: *mut rdma_conn_param) -> c_int;
    fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int;
    fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int;
    fn rdma_connect(id: *mut rdma_cm_id, conn_param: *mut rdma_conn_param) -> c_int;
    fn rdma_create_event_channel() -> *mut rdma_event_channel;
    fn rdma_create_id(
        channel: *mut rdma_event_channel,
        id: *mut *mut rdma_cm_id,
        context: *mut c_void,
        ps: rdma_port_space::Type,
    ) -> c_int;
    fn rdma_destroy_event_channel(channel: *mut rdma_event_channel);
    fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int;
    fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int;
    fn rdma_freeaddrinfo(res: *mut rdma_addrinfo);
    fn rdma_get_cm_event(channel: *mut rdma_event_channel, event: *mut *mut rdma_cm_event) -> c_int;
    fn rdma_getaddrinfo(
        node: *const c_char,
        service: *const c_char,
        hints: *const rdma_addrinfo,
        res: *mut *mut rdma_addrinfo,
    ) -> c_int;
    fn rdma_join_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr, context: *mut c_void) -> c_int;
    fn rdma_leave_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int;
    fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int;
    fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int;
    fn rdma_notify(id: *mut rdma_cm_id, event: ibv_event_type) -> c_int;
    fn rdma_reject(id: *mut rdma_cm_id, private_data: *const c_void, private_data_len: u8) -> c_int;
    fn rdma_resolve_addr(
        id: *mut rdma_cm_id,
        src_addr: *mut sockaddr,
        dst_addr: *mut sockaddr,
        timeout_ms: c_int,
    ) -> c_int;
    fn rdma_resolve_route(id: *mut rdma_cm_id, timeout_ms: c_int) -> c_int;
    fn rdma_set_option(
        id: *mut rdma_cm_id,
        level: c_int,
        optname: c_int,
        optval: *mut c_void,
        optlen: usize,
    ) -> c_int;

    version c"RDMACM_1.2";
    fn rdma_establish(id: *mut rdma_cm_id) -> c_int;
    fn rdma_init_qp_attr(
        id: *mut rdma_cm_id,
        qp_attr: *mut ibv_qp_attr,
        qp_attr_mask: *mut c_int,
    ) -> c_int;
}
