//! What is passed to C, by functions that take C's place.

#![allow(clippy::undocumented_unsafe_blocks)] // objects of this file, all of them live

use std::cell::{Cell, RefCell};

use super::super::{Id, stub};
use super::*;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static ANSWER: Cell<c_int> = const { Cell::new(0) };
}

fn saw(id: *mut rdma_cm_id, call: String) -> c_int {
    let port = unsafe { (*id).port_num };
    SEEN.with_borrow_mut(|seen| seen.push(format!("id {port}, {call}")));
    unsafe { *libc::__errno_location() = libc::EPERM };
    ANSWER.get()
}

fn seen() -> Vec<String> {
    SEEN.with_borrow_mut(std::mem::take)
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

const ALL: Symbols =
    Symbols { set_local_ece: Some(set), get_remote_ece: Some(get), reject_ece: Some(reject) };

/// Calls with an id whose port is 3, which librdmacm does not know.
fn with<R>(symbols: Symbols, call: impl FnOnce(&mut Id) -> R) -> R {
    STAND_IN.set(Some(symbols));
    let mut id = stub::id(7, None);
    stub::set_port(&id, 3);
    let result = call(&mut id);
    std::mem::forget(id);
    result
}

#[test]
fn options_of_connections_reach_c_as_they_are() {
    let ece = ibv_ece { vendor_id: 0x15b3, options: 0x10, comp_mask: 0 };
    let all = |id: &mut Id| (id.set_local_ece(ece), id.remote_ece(), id.reject_ece(b"no"));
    let theirs = ibv_ece { vendor_id: 7, options: 8, comp_mask: 0 };
    assert_eq!(with(ALL, all), (Ok(()), Ok(Some(theirs)), Ok(())));
    assert_eq!(seen(), ["id 3, set 0x15b3, 0x10, 0", "id 3, get", "id 3, reject no"]);
    ANSWER.set(-1);
    assert_eq!(with(ALL, all), (Err(libc::EPERM), Err(libc::EPERM), Err(libc::EPERM)));
    // A library without them: who asks what the peer offered learns that it offered nothing.
    let none = with(Symbols::default(), all);
    assert_eq!(none, (Err(libc::ENOSYS), Ok(None), Err(libc::ENOSYS)));
}

#[test]
#[cfg_attr(miri, ignore = "asks the dynamic linker")]
fn this_library_has_the_functions() {
    let symbols = symbols();
    assert!(symbols.set_local_ece.is_some() && symbols.get_remote_ece.is_some());
    assert!(symbols.reject_ece.is_some());
}
