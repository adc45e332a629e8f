//! The arguments of C calls, recorded by stub functions, because no available machine has such
//! memory.

#![allow(clippy::undocumented_unsafe_blocks)] // objects of this file, all of them live

use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::device::DeviceMemory;
use crate::ext::device_memory::{Dm, DmaBuf};
use crate::prelude::*;
use crate::sys::control::LIBIBVERBS;
use crate::sys::extended::{BARE, QUERY_DEVICE_EX, ibv_device_attr_ex};
use crate::sys::memory::*;
use crate::sys::tests::{self, ANSWER, saw, seen};
use crate::sys::types::*;
use std::ffi::{c_int, c_void};
use std::ptr;

thread_local! {
    static CODE: Cell<c_int> = const { Cell::new(0) };
}

/// An object; null with errno set, if the answer is an errno.
fn answer<T>(object: *mut T) -> *mut T {
    match ANSWER.get() {
        0 => object,
        errno => {
            unsafe { *libc::__errno_location() = errno };
            ptr::null_mut()
        }
    }
}

fn mr() -> *mut ibv_mr {
    let (context, pd, addr) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let mr = ibv_mr { context, pd, addr, length: 0, handle: 0, lkey: 0x11, rkey: 0x22 };
    answer(Box::leak(Box::new(mr)))
}

unsafe extern "C" fn reg_dmabuf(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    let handle = unsafe { (*pd).handle };
    saw(format!("pd {handle}, {offset:#x}, {length:#x}, {iova:#x}, fd {fd}, access {access}"));
    mr()
}

unsafe extern "C" fn rereg(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let lkey = unsafe { (*mr).lkey };
    saw(format!("{lkey:#x}, {flags}, {}, {addr:?}, {length}, {access}", !pd.is_null()));
    unsafe { *libc::__errno_location() = ANSWER.get() };
    CODE.get()
}

unsafe extern "C" fn query(
    _: *mut ibv_context,
    _: *const c_void,
    attr: *mut ibv_device_attr_ex,
    _: usize,
) -> c_int {
    unsafe { (*attr).max_dm_size = 4096 };
    0
}

unsafe extern "C" fn alloc(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm {
    let ibv_alloc_dm_attr { length, log_align_req, comp_mask } = unsafe { *attr };
    saw(format!("alloc {length}, {log_align_req}, {comp_mask}"));
    let dm = ibv_dm {
        context,
        memcpy_to_dm: copy_to,
        memcpy_from_dm: copy_from,
        comp_mask: 0,
        handle: 5,
    };
    answer(Box::leak(Box::new(dm)))
}

unsafe extern "C" fn free(dm: *mut ibv_dm) -> c_int {
    saw(format!("free {}", unsafe { (*dm).handle }));
    if ANSWER.get() == 0 {
        drop(unsafe { Box::from_raw(dm) });
    }
    ANSWER.get()
}

unsafe extern "C" fn reg_dm(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: u32,
) -> *mut ibv_mr {
    let (pd, dm) = unsafe { ((*pd).handle, (*dm).handle) };
    saw(format!("pd {pd}, dm {dm}, {offset}, {length}, {access}"));
    mr()
}

unsafe extern "C" fn copy_to(_: *mut ibv_dm, at: u64, from: *const c_void, len: usize) -> c_int {
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len) };
    saw(format!("to {at}: {bytes:?}"));
    ANSWER.get()
}

unsafe extern "C" fn copy_from(to: *mut c_void, _: *mut ibv_dm, at: u64, len: usize) -> c_int {
    saw(format!("from {at}: {len}"));
    unsafe { to.cast::<u8>().write_bytes(7, len) };
    ANSWER.get()
}

unsafe extern "C" fn advise(
    pd: *mut ibv_pd,
    advice: u32,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    let (pd, list) = unsafe { ((*pd).handle, std::slice::from_raw_parts(list, count as usize)) };
    let list: Vec<_> = list.iter().map(|sge| (sge.addr, sge.length, sge.lkey)).collect();
    saw(format!("pd {pd}, advice {advice}, flags {flags}, {list:?}"));
    ANSWER.get()
}

/// A context and a domain. `size` is the size of its `verbs_context`.
fn fakes(size: usize) -> (*mut ibv_context, *mut ibv_pd) {
    const WORDS: usize = ADVISE_MR / 8;
    let context = tests::context::<WORDS>(
        size,
        &[
            (QUERY_DEVICE_EX, query as *const ()),
            (ALLOC_DM, alloc as *const ()),
            (FREE_DM, free as *const ()),
            (REG_DM_MR, reg_dm as *const ()),
            (ADVISE_MR, advise as *const ()),
        ],
    );
    unsafe { (*(*context).device).name[0] = b'f' as _ };
    (context, Box::into_raw(Box::new(ibv_pd { context, handle: 3, ..zeroed() })))
}

/// A context and a domain, as C would create them. They are never closed.
fn adopted(size: usize) -> (Context, ProtectionDomain) {
    let (context, pd) = fakes(size);
    unsafe {
        let context = Context::from_raw(NonNull::new_unchecked(context), ());
        let pd = ProtectionDomain::from_raw(&context, NonNull::new_unchecked(pd), ());
        (context, pd.unwrap())
    }
}

const ALL: usize = BARE + ADVISE_MR;

/// Any descriptor. It is not used.
fn some_fd() -> OwnedFd {
    std::os::unix::net::UnixStream::pair().unwrap().0.into()
}

/// Proves R18.12, R18.17.
#[test]
fn a_dma_buf_reaches_c_as_it_is() {
    unsafe { replace_for_test(Symbols { reg_dmabuf_mr: Some(reg_dmabuf), rereg_mr: None }) };
    let (_context, pd) = adopted(ALL);
    let dmabuf = || DmaBuf { fd: some_fd(), offset: 0x5010, len: 0x2345, iova: 0x7f00_0000_3010 };
    fn register<A: crate::memory::Access>(
        pd: &ProtectionDomain,
        dmabuf: DmaBuf,
    ) -> (MemoryRegion<A, DmaBuf>, c_int, Vec<String>) {
        let fd = dmabuf.fd.as_raw_fd();
        (pd.register_dmabuf(dmabuf).unwrap(), fd, seen())
    }
    let call = |fd, access| {
        vec![format!("pd 3, 0x5010, 0x2345, 0x7f0000003010, fd {fd}, access {access}")]
    };
    let (region, fd, seen_now) = register::<RemoteAll>(&pd, dmabuf());
    assert_eq!(seen_now, call(fd, 1 | 2 | 4 | 8));
    let slice = region.remote();
    assert_eq!((slice.addr(), slice.len(), slice.rkey()), (0x7f00_0000_3010, 0x2345, 0x22));
    assert_eq!(region.piece(1, 4).unwrap().len(), 4);
    std::mem::forget(region); // C's `ibv_dereg_mr` does not know it
    let (region, fd, seen_now) = register::<RemoteRead>(&pd, dmabuf());
    assert_eq!(seen_now, call(fd, 1 | 4));
    std::mem::forget(region);
    let (region, fd, seen_now) = register::<LocalWrite>(&pd, dmabuf());
    assert_eq!(seen_now, call(fd, 1));
    std::mem::forget(region);
    // Errors return the slice, and name what is missing.
    ANSWER.set(libc::EOPNOTSUPP);
    let refused = pd.register_dmabuf::<RemoteRead>(dmabuf()).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EOPNOTSUPP));
    let text = refused.to_string();
    assert_eq!(refused.into_object().offset, 0x5010);
    assert!(text.contains("; f does not support dma-bufs: copy through"), "{text}");
    ANSWER.set(libc::EINVAL);
    let refused = pd.register_dmabuf::<RemoteRead>(dmabuf()).unwrap_err();
    let text = refused.to_string();
    assert!(text.ends_with("; the range exceeds the dma-buf, or the descriptor is not a dma-buf)"));
    seen();
    unsafe { replace_for_test(Symbols::default()) };
    let refused = pd.register_dmabuf::<RemoteRead>(dmabuf()).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("; this libibverbs is older than rdma-core 34: "), "{text}");
    assert!(matches!(refused.error.kind(), ErrorKind::Unsupported { .. }));
    // Arguments that the kernel would reject do not reach it.
    let wrong = [
        DmaBuf { iova: 0x7f00_0000_3018, ..dmabuf() },
        DmaBuf { len: 0, ..dmabuf() },
        DmaBuf { offset: u64::MAX - 0xfef, ..dmabuf() },
        DmaBuf { iova: u64::MAX - 0xfef, ..dmabuf() },
        DmaBuf { len: usize::MAX, ..dmabuf() },
    ];
    for dmabuf in wrong {
        let refused = pd.register_dmabuf::<RemoteRead>(dmabuf).unwrap_err();
        assert_eq!(refused.error.errno(), Some(libc::EINVAL), "{refused}");
    }
    assert_eq!(seen(), [""; 0]);
}

/// Proves R6.14.
#[test]
fn device_memory_reaches_c_as_it_is() {
    let (context, pd) = adopted(ALL);
    let can = context.abilities().unwrap().can::<DeviceMemory>().unwrap();
    let dm: Dm = context.alloc_dm(&can, 64, 3).unwrap();
    dm.memcpy_to_dm(8, &[1, 2, 3, 4]).unwrap();
    let mut out = [0; 4];
    dm.memcpy_from_dm(60, &mut out).unwrap();
    assert_eq!(out, [7; 4]);
    dm.memcpy_from_dm(61, &mut out).unwrap_err(); // C is not called
    dm.memcpy_to_dm(usize::MAX, &[0]).unwrap_err();
    assert_eq!(seen(), ["alloc 64, 3, 0", "to 8: [1, 2, 3, 4]", "from 60: 4"]);
    ANSWER.set(libc::EINVAL);
    let text = dm.memcpy_to_dm(2, &[0]).unwrap_err().to_string();
    assert!(
        text.ends_with("(1 bytes at offset 2; some devices copy whole words of 4 bytes)"),
        "{text}"
    );
    let refused = pd.register_dm::<RemoteRead>(dm).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EINVAL));
    let dm = refused.into_object().destroy().unwrap_err().into_object();
    let text = context.alloc_dm(&can, 4000, 0).unwrap_err().to_string();
    assert!(text.ends_with("(4000 bytes, log_align_req 0; the device has 4096 bytes)"), "{text}");
    let error = context.alloc_dm(&can, 4097, 0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { asked: 4097, max: 4096, .. }));
    ANSWER.set(0);
    seen();
    let region = pd.register_dm::<RemoteAtomic>(dm).unwrap();
    assert_eq!(seen(), ["pd 3, dm 5, 0, 64, 41"]); // local write, remote atomic, zero based
    assert_eq!((region.remote().addr(), region.remote().rkey()), (0, 0x22));
    region.memcpy_to_dm(4, &[9]).unwrap();
    std::mem::forget(region); // C's `ibv_dereg_mr` does not know it
    context.alloc_dm(&can, 1, 0).unwrap().destroy().unwrap();
    assert_eq!(seen(), ["to 4: [9]", "alloc 1, 0, 0", "free 5"]);
}

/// A library whose `verbs_context` does not reach an operation does not support it.
/// Proves R18.17.
#[test]
fn an_older_library_has_no_device_memory() {
    let asked = |size| {
        let (context, pd) = fakes(size);
        let attr = ibv_alloc_dm_attr { length: 8, log_align_req: 0, comp_mask: 0 };
        unsafe {
            let dm = (LIBIBVERBS.alloc_dm)(context, attr);
            let memory = dm.map_or(ptr::null_mut(), NonNull::as_ptr);
            let region = (LIBIBVERBS.reg_dm_mr)(pd, memory, 0, 8, ZERO_BASED);
            (dm.err(), memory.is_null() || region.is_ok())
        }
    };
    assert_eq!(asked(BARE + FREE_DM), (Some(libc::EOPNOTSUPP), true));
    assert_eq!(asked(BARE + ALLOC_DM), (None, false));
    assert_eq!(asked(BARE + REG_DM_MR), (None, true));
}

/// Proves R20.3.
#[test]
fn advice_reaches_c_as_it_is() {
    let advise = |size, advice, flags| {
        let (_, pd) = fakes(size);
        let sge = |addr, length| ibv_sge { addr, length, lkey: 0x11 };
        let mut list = [sge(0x1000, 64), sge(0x3000, 1 << 30)];
        unsafe { (LIBIBVERBS.advise_mr)(pd, advice, flags, &mut list) }
    };
    assert_eq!(advise(ALL, advice::PREFETCH_WRITE, FLUSH), Ok(()));
    ANSWER.set(libc::EFAULT);
    assert_eq!(advise(ALL, advice::PREFETCH_NO_FAULT, 0), Err(libc::EFAULT));
    let list = "[(4096, 64, 17), (12288, 1073741824, 17)]";
    let seen = seen();
    let expected = [(1, 1), (2, 0)]
        .map(|(advice, flags)| format!("pd 3, advice {advice}, flags {flags}, {list}"));
    assert_eq!(seen, expected);
    assert_eq!(advise(BARE + REG_DM_MR, advice::PREFETCH, FLUSH), Err(libc::EOPNOTSUPP));
}

/// The arguments of a change of a region, and the meaning of each of C's codes.
#[test]
fn a_change_reaches_c_as_it_is() {
    let symbols = |rereg_mr| unsafe { replace_for_test(Symbols { reg_dmabuf_mr: None, rereg_mr }) };
    symbols(Some(rereg));
    let (mr, (_, pd)) = (mr(), fakes(ALL));
    let to = Rereg { flags: 5, pd: ptr::null_mut(), addr: ptr::null_mut(), length: 4, access: 9 };
    let ask = |to| unsafe { (LIBIBVERBS.rereg_mr)(mr, to) };
    assert_eq!(ask(to), Ok(()));
    assert_eq!(ask(Rereg { flags: 2, pd, ..to }), Ok(()));
    assert_eq!(seen(), ["0x11, 5, false, 0x0, 4, 9", "0x11, 2, true, 0x0, 4, 9"]);
    for code in [ERR_INPUT, ERR_DONT_FORK_NEW, ERR_DO_FORK_OLD, ERR_CMD, ERR_CMD_AND_DO_FORK_NEW] {
        CODE.set(code);
        ANSWER.set(libc::ENOMEM);
        assert_eq!(ask(to), Err(ReregFailed { code, errno: libc::ENOMEM }));
        ANSWER.set(0); // C sets no errno, so an older one does not belong to this call
        assert_eq!(ask(to), Err(ReregFailed { code, errno: libc::EIO }));
    }
    symbols(None);
    assert_eq!(ask(to), Err(ReregFailed { code: ERR_INPUT, errno: libc::ENOSYS }));
}
