//! The arguments passed to C, with stubs instead of the C functions.

#![allow(clippy::undocumented_unsafe_blocks)] // all objects of this file are live

use std::cell::Cell;

use super::super::{Id, from_c, stub};
use super::*;
use crate::tests::{ANSWER, answered, seen};

thread_local! {
    static KEY: Cell<u64> = const { Cell::new(0) };
}

fn saw(id: *mut rdma_cm_id, call: String) -> c_int {
    answered(format!("id {}, {call}", unsafe { (*id).port_num }))
}

unsafe extern "C" fn set(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    let ibv_ece { vendor_id, options, comp_mask } = unsafe { *ece };
    saw(id, format!("set {vendor_id:#x}, {options:#x}, {comp_mask}"))
}

unsafe extern "C" fn get(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    unsafe { *ece = ibv_ece { vendor_id: 7, options: 8, comp_mask: 0 } };
    saw(id, "get".into())
}

unsafe extern "C" fn reject(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len.into()) };
    saw(id, format!("reject {}", data.escape_ascii()))
}

unsafe extern "C" fn join(
    id: *mut rdma_cm_id,
    attr: *mut rdma_cm_join_mc_attr_ex,
    context: *mut c_void,
) -> c_int {
    let rdma_cm_join_mc_attr_ex { comp_mask, join_flags, addr } = unsafe { attr.read() };
    let (at, key) = (unsafe { from_c(addr) }.unwrap(), context.addr());
    KEY.set(key as u64);
    saw(id, format!("join {comp_mask}, {join_flags}, {at}"))
}

unsafe extern "C" fn write(id: *mut rdma_cm_id, event: u32, status: c_int, arg: u64) -> c_int {
    saw(id, format!("write {event}, {status}, {arg:#x}"))
}

const ALL: Symbols = Symbols {
    set_local_ece: Some(set),
    get_remote_ece: Some(get),
    reject_ece: Some(reject),
    join_multicast_ex: Some(join),
    write_cm_event: Some(write),
};

/// Calls with an id whose port is 3 and which librdmacm does not know.
fn with<R>(symbols: Symbols, call: impl FnOnce(&mut Id) -> R) -> R {
    REPLACED.set(Some(symbols));
    let mut id = stub::id(7, None);
    stub::set_port(&id, 3);
    let result = call(&mut id);
    std::mem::forget(id);
    result
}

/// Proves R23.1.
#[test]
fn connection_options_reach_c_unchanged() {
    let ece = ibv_ece { vendor_id: 0x15b3, options: 0x10, comp_mask: 0 };
    let all = |id: &mut Id| (id.set_local_ece(ece), id.remote_ece(), id.reject_ece(b"no"));
    let theirs = ibv_ece { vendor_id: 7, options: 8, comp_mask: 0 };
    assert_eq!(with(ALL, all), (Ok(()), Ok(Some(theirs)), Ok(())));
    assert_eq!(seen(), ["id 3, set 0x15b3, 0x10, 0", "id 3, get", "id 3, reject no"]);
    ANSWER.set(-1);
    assert_eq!(with(ALL, all), (Err(libc::EPERM), Err(libc::EPERM), Err(libc::EPERM)));
    // Without these functions, the peer offered no options.
    let none = with(Symbols::default(), all);
    assert_eq!(none, (Err(libc::ENOSYS), Ok(None), Err(libc::ENOSYS)));
}

/// Proves R23.3.
#[test]
fn the_kind_of_a_membership_reaches_c() {
    let at = "239.77.0.1:7471".parse().unwrap();
    // SAFETY: the stub needs no device.
    let join = |id: &mut Id, flags| unsafe { id.join(at, Some(flags)) };
    let joined = with(ALL, |id| join(id, SENDONLY_FULLMEMBER).map(|(key, _)| key)).unwrap();
    assert_eq!(joined, KEY.get(), "expected the group's key in the event");
    assert!(with(ALL, |id| join(id, FULLMEMBER)).is_ok());
    assert_eq!(seen(), ["id 3, join 3, 1, 239.77.0.1:7471", "id 3, join 3, 0, 239.77.0.1:7471"]);
    ANSWER.set(-1);
    assert_eq!(with(ALL, |id| join(id, FULLMEMBER).err()), Some(libc::EPERM));
    let none = with(Symbols::default(), |id| join(id, FULLMEMBER).err());
    assert_eq!(none, Some(libc::ENOSYS));
}

/// Proves R23.5.
#[test]
fn a_user_event_reaches_c() {
    let write = |id: &mut Id| id.write_event(-5, u64::MAX - 1);
    assert_eq!(with(ALL, write), Ok(()));
    assert_eq!(seen(), ["id 3, write 18, -5, 0xfffffffffffffffe"]);
    ANSWER.set(-1);
    assert_eq!(with(ALL, write), Err(libc::EPERM));
    assert_eq!(with(Symbols::default(), write), Err(libc::ENOSYS));
}

#[test]
#[cfg_attr(miri, ignore = "uses the dynamic linker")]
fn the_installed_library_has_the_functions() {
    let symbols = symbols();
    assert!(symbols.set_local_ece.is_some() && symbols.get_remote_ece.is_some());
    assert!(symbols.reject_ece.is_some() && symbols.join_multicast_ex.is_some());
}
