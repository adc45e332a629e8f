//! Protection domains, memory regions and address handles.

#![allow(unsafe_code)] // C objects.

use std::ffi::c_void;
use std::ptr;

use super::{Domain, hand_out, verb};
use crate::state::State;
use crate::words::Verb;
use crate::words::address::Address;
use crate::words::wr::Sge;
use proverbs_sys::control::{Created, Holds};
use proverbs_sys::types::*;

pub(super) unsafe fn alloc_pd(context: *mut ibv_context) -> Created<ibv_pd> {
    // SAFETY: `context` is live (the verb's contract).
    let handle = unsafe { verb(context, State::alloc_pd) }?;
    Ok(hand_out(Domain { pd: ibv_pd { context, handle, ..zeroed() }, joint: None }).cast())
}

/// Registers a region with `register`, which returns its number and its keys.
///
/// # Safety
/// `pd` is live.
pub(super) unsafe fn make_mr(
    pd: *mut ibv_pd,
    (addr, length): (*mut c_void, usize),
    register: impl FnOnce(&mut State, u32) -> Verb<(u32, u32, u32)>,
) -> Created<ibv_mr> {
    // SAFETY: `pd` is live (this function's contract).
    let (context, registered) = unsafe { ((*pd).context, verb(pd, register)) };
    let (handle, lkey, rkey) = registered?;
    Ok(hand_out(ibv_mr { context, pd, addr, length, handle, lkey, rkey, ..zeroed() }))
}

pub(super) unsafe fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut u8,
    length: usize,
    access: u32,
    holds: Holds,
) -> Created<ibv_mr> {
    let register = |state: &mut State, pd| state.reg_mr(pd, addr, length, access, holds);
    // SAFETY: `pd` is live, and the memory is valid until `dereg_mr` (the verb's contract).
    unsafe { make_mr(pd, (addr.cast(), length), register) }
}

pub(super) unsafe fn alloc_null_mr(pd: *mut ibv_pd) -> Created<ibv_mr> {
    // SAFETY: `pd` is live (the verb's contract).
    unsafe { make_mr(pd, (ptr::null_mut(), 0), State::alloc_null_mr) }
}

pub(super) fn advise_mr(
    state: &mut State,
    pd: u32,
    advice: u32,
    flags: u32,
    list: &[ibv_sge],
) -> Verb {
    let of = |sge: &ibv_sge| Sge { addr: sge.addr, length: sge.length, lkey: sge.lkey };
    let list: Vec<Sge> = list.iter().map(of).collect();
    state.advise_mr(pd, advice, flags, &list)
}

pub(super) unsafe fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> Created<ibv_ah> {
    // SAFETY: `attr` is readable (the verb's contract).
    let address = address_of(&unsafe { attr.read() });
    // SAFETY: `pd` is live (the verb's contract).
    let (context, handle) =
        unsafe { ((*pd).context, verb(pd, |state, pd| state.create_ah(pd, address))?) };
    Ok(hand_out(ibv_ah { context, pd, handle, ..zeroed() }))
}

pub(super) fn address_of(attr: &ibv_ah_attr) -> Address {
    Address {
        // SAFETY: every field of the union is 16 bytes, and any bytes are a value.
        dgid: unsafe { attr.grh.dgid.raw },
        dlid: attr.dlid,
        slid: 0,
        sgid_index: attr.grh.sgid_index,
        flow_label: attr.grh.flow_label,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        sl: attr.sl,
        rate: attr.static_rate,
        path_bits: attr.src_path_bits,
        is_global: attr.is_global != 0,
        port: attr.port_num,
    }
}

pub(crate) fn address_to(address: &Address) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: address.dgid },
            flow_label: address.flow_label,
            sgid_index: address.sgid_index,
            hop_limit: address.hop_limit,
            traffic_class: address.traffic_class,
            ..zeroed()
        },
        dlid: address.dlid,
        sl: address.sl,
        static_rate: address.rate,
        src_path_bits: address.path_bits,
        is_global: address.is_global.into(),
        port_num: address.port,
        ..zeroed()
    }
}
