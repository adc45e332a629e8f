//! XRC.

#![allow(unsafe_code)] // C objects, and attributes read and written through pointers.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::ptr;

use super::pair::{hand_out_qp, hand_out_srq, make_on};
use super::{hand_out, number_beside, verb};
use crate::objects::domains::OfXrc;
use crate::state::State;
use crate::words::Verb;
use proverbs_sys::control::Created;
use proverbs_sys::create_qp_ex::{ATTR_XRCD, ibv_qp_init_attr_ex};
use proverbs_sys::types::*;
use proverbs_sys::xrc::*;

/// An XRC domain, whose C struct has no room for a number.
#[repr(C)]
pub(super) struct XrcDomain {
    pub(super) xrcd: ibv_xrcd,
    pub(super) number: u32,
}

/// Files are compared by device and inode, as the kernel does.
pub(super) unsafe fn open_xrcd(
    context: *mut ibv_context,
    fd: c_int,
    oflags: c_int,
) -> Created<ibv_xrcd> {
    let inode = match fd {
        -1 => None,
        // SAFETY: the caller keeps the file open during the call (the verb's contract).
        fd => Some(inode_of(unsafe { BorrowedFd::borrow_raw(fd) })?),
    };
    let how = (oflags & libc::O_CREAT != 0, oflags & libc::O_EXCL != 0);
    // SAFETY: `context` is live (the verb's contract).
    let number = unsafe { verb(context, |state, device| state.open_xrcd(device, inode, how)) }?;
    Ok(hand_out(XrcDomain { xrcd: ibv_xrcd { context }, number }).cast())
}

fn inode_of(file: BorrowedFd<'_>) -> Verb<(u64, u64)> {
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EBADF);
    let file = File::from(file.try_clone_to_owned().map_err(errno)?);
    let metadata = file.metadata().map_err(errno)?;
    Ok((metadata.dev(), metadata.ino()))
}

pub(super) unsafe fn create_srq_ex(init: &mut ibv_srq_init_attr_ex) -> Created<ibv_srq> {
    const ALL: u32 = SRQ_TYPE | SRQ_PD | SRQ_XRCD | SRQ_CQ;
    if init.comp_mask != ALL || init.srq_type != SRQT_XRC {
        return Err(libc::EINVAL);
    }
    let pd = init.pd;
    // SAFETY: the objects that the attributes name are live (the verb's contract).
    let (xrcd, cq) = unsafe {
        let xrcd = number_beside(pd, init.xrcd);
        (xrcd.ok_or(libc::EINVAL)?, number_beside(pd, init.cq).ok_or(libc::EINVAL)?)
    };
    let asked = init.attr;
    let make = |state: &mut State, pd| {
        let of = OfXrc { xrcd, cq };
        state.check_xrc_srq(pd, of)?;
        state.create_srq(pd, asked, Some(of))
    };
    // SAFETY: `pd` is live (the verb's contract).
    let (handle, granted) = unsafe { make_on(pd, make) }?;
    init.attr = granted;
    // SAFETY: `pd` is live (the verb's contract).
    Ok(unsafe { hand_out_srq(pd, handle, init.srq_context) })
}

/// The number of an XRC shared receive queue, which is the object's number.
pub(super) fn srq_num(state: &mut State, number: u32) -> Verb<u32> {
    let is_of_xrc = state.srqs.get(&number).is_some_and(|srq| srq.of_xrc.is_some());
    if is_of_xrc { Ok(number) } else { Err(libc::EOPNOTSUPP) }
}

/// Creates an XRC target: a queue pair that has only its XRC domain.
///
/// # Safety
/// `init.xrcd` is live.
pub(super) unsafe fn create_target(init: &ibv_qp_init_attr_ex) -> Created<ibv_qp> {
    let is_bare = init.send_cq.is_null() && init.recv_cq.is_null() && init.srq.is_null();
    if init.comp_mask != ATTR_XRCD || !is_bare || init.xrcd.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the domain is live (this function's contract).
    let (number, context) =
        unsafe { (verb(init.xrcd, State::create_target)?, (*init.xrcd).context) };
    Ok(hand_out_qp(context, ptr::null_mut(), number, &init.plain()))
}
