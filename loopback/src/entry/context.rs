//! Devices: opening, closing, and their attributes.

#![allow(unsafe_code)] // Contexts are raw pointers, and attributes are written through such.

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Device, errno_of, hand_out, ops, verb};
use crate::shared::Shared;
use crate::state::State;
use crate::verbs::tuning;
use crate::words::clock;
use crate::words::limits;
use crate::words::world::Link;
use proverbs_sys::extended::{PortAttr, ibv_device_attr_ex};
use proverbs_sys::gid::ibv_gid_entry;
use proverbs_sys::provider::Provider;
use proverbs_sys::types::*;

/// Opens a new device on the fabric.
pub(crate) fn open(shared: &Arc<Shared>, place: Option<u32>) -> NonNull<ibv_context> {
    let (number, place, link) = shared.post(|state| {
        let number = state.open_device_at(place);
        (number, state.place_of(number), state.world.link)
    });
    let (node_type, transport_type) = match link {
        Link::Iwarp => (ibv_node_type::IBV_NODE_RNIC, ibv_transport_type::IBV_TRANSPORT_IWARP),
        _ => (ibv_node_type::IBV_NODE_CA, ibv_transport_type::IBV_TRANSPORT_IB),
    };
    let name = text(&format!("loop{place}"));
    let context = ibv_context {
        ops: ops::table(),
        cmd_fd: -1,
        async_fd: -1,
        num_comp_vectors: limits::COMP_VECTORS,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        ..zeroed()
    };
    let device = ibv_device { node_type, transport_type, name, dev_name: name, ..zeroed() };
    let whole = hand_out(Device { context, device, shared: Arc::clone(shared), number }).as_ptr();
    // SAFETY: just allocated, so not null, and known to nothing else yet. `device` is set to a
    // place in the allocation without making a reference.
    unsafe {
        (*whole).context.device = &raw mut (*whole).device;
        NonNull::new_unchecked(whole.cast())
    }
}

/// A C string in an array of its own.
fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(text.bytes().take(N - 1)) {
        *to = from as c_char;
    }
    out
}

/// Refuses with `EBUSY` while the device has objects.
pub(crate) unsafe fn close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: `context` is live (the verb's contract).
    let result = unsafe { verb(context, |state, device| state.close_device(device)) };
    if result.is_ok() {
        // SAFETY: `open` made it as a `Device`, and it is closed only once.
        drop(unsafe { Box::from_raw(context.cast::<Device>()) });
    }
    errno_of(result)
}

pub(crate) unsafe fn query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    let ask = |state: &mut State, device| {
        state
            .check_alive(device)
            .map(|()| (state.place_of(device), state.world.region, optional_caps(state)))
    };
    // SAFETY: `context` is live (the verb's contract).
    let (number, max_mr_size, optional) = match unsafe { verb(context, ask) } {
        Ok(known) => known,
        Err(errno) => return errno,
    };
    let value = ibv_device_attr {
        fw_ver: text("loopback"),
        node_guid: guid(number),
        sys_image_guid: guid(number),
        max_mr_size,
        page_size_cap: 4096,
        max_qp: 65536,
        max_qp_wr: limits::QP_WR as c_int,
        device_cap_flags: device_caps() | optional,
        max_sge: limits::SGE as c_int,
        max_sge_rd: limits::SGE as c_int,
        max_cq: 65536,
        max_cqe: limits::CQE as c_int,
        max_mr: 65536,
        max_pd: 65536,
        max_qp_rd_atom: limits::RD_ATOMIC.into(),
        max_res_rd_atom: 65536 * c_int::from(limits::RD_ATOMIC),
        max_qp_init_rd_atom: limits::RD_ATOMIC.into(),
        atomic_cap: ibv_atomic_cap::IBV_ATOMIC_HCA,
        max_ah: 65536,
        max_srq: 65536,
        max_srq_wr: limits::SRQ_WR as c_int,
        max_srq_sge: limits::SGE as c_int,
        max_pkeys: 1,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        ..zeroed()
    };
    // SAFETY: `attr` is writable (the verb's contract).
    unsafe { attr.write(value) };
    0
}

pub(crate) unsafe fn provider(context: *mut ibv_context) -> Provider {
    // SAFETY: `context` is live (the verb's contract).
    unsafe { verb(context, |state, _| state.world.provider) }
}

pub(crate) unsafe fn query_device_ex(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr_ex,
) -> c_int {
    let mut value = ibv_device_attr_ex { phys_port_cnt_ex: 1, ..zeroed() };
    let ask = |state: &mut State, _| {
        let habits = &state.habits;
        let persists = state.world.link != Link::Iwarp;
        let has = (!habits.is_rxe(), persists);
        (state.max_dm_size(), habits.has_clock(), habits.odp(), has)
    };
    // SAFETY: `context` is live (the verb's contract).
    let (max_dm_size, has_clock, odp, (tunes, persists)) = unsafe { verb(context, ask) };
    value.max_dm_size = max_dm_size;
    if tunes {
        (value.cq_mod_caps.max_cq_count, value.cq_mod_caps.max_cq_period) = tuning::MODERATION;
        (value.packet_pacing_caps.qp_rate_limit_min, value.packet_pacing_caps.qp_rate_limit_max) =
            tuning::RATES;
        value.packet_pacing_caps.supported_qpts = 1 << ibv_qp_type::IBV_QPT_RC;
    }
    if let Some(ops) = odp {
        value.odp_caps.general_caps = 3; // regions on demand, and the implicit one
        value.odp_caps.per_transport_caps = ops.map(|ops| ops.bits());
    }
    if has_clock {
        (value.completion_timestamp_mask, value.hca_core_clock) = (clock::MASK, clock::KHZ);
    }
    // SAFETY: `context` is live (the verb's contract), and the attributes are a local's.
    match unsafe { query_device(context, &mut value.orig_attr) } {
        0 => {
            value.device_cap_flags_ex = value.orig_attr.device_cap_flags.into();
            if persists {
                // FLUSH to both, and ATOMIC_WRITE.
                value.device_cap_flags_ex |= 0b111 << 38;
            }
            // SAFETY: `attr` is writable (the verb's contract).
            unsafe { attr.write(value) };
            0
        }
        errno => errno,
    }
}

/// Automatic path migration and XRC, where they can be.
fn optional_caps(state: &State) -> u32 {
    use raw::ibv_device_cap_flags as cap;
    let has = |can, flag| if can { flag } else { 0 };
    has(state.can_migrate(), cap::IBV_DEVICE_AUTO_PATH_MIG.0)
        | has(state.has_xrc(), cap::IBV_DEVICE_XRC.0)
}

/// The receiver-not-ready NAK, resizable SRQs, and `IBV_QP_CUR_STATE`.
fn device_caps() -> u32 {
    use raw::ibv_device_cap_flags as cap;
    cap::IBV_DEVICE_RC_RNR_NAK_GEN.0
        | cap::IBV_DEVICE_SRQ_RESIZE.0
        | cap::IBV_DEVICE_CURR_QP_STATE_MOD.0
}

/// The GUID of a device's node, in network order.
fn guid(device: u32) -> u64 {
    (0x0200_00ff_fe00_0000 | u64::from(device.wrapping_add(1))).to_be()
}

pub(crate) unsafe fn query_port(context: *mut ibv_context, port: u8, attr: *mut PortAttr) -> c_int {
    let ask = |state: &mut State, device: u32| {
        state.check_alive(device)?;
        let violations = state.qkey_violations.get(&device).copied().unwrap_or(0);
        Ok((violations, state.lid(device), state.world))
    };
    // SAFETY: `context` is live (the verb's contract).
    let (violations, lid, world) = match unsafe { verb(context, ask) } {
        Ok(answer) => answer,
        Err(errno) => return errno,
    };
    if port != 1 {
        return libc::EINVAL;
    }
    let is_infiniband = world.link == Link::InfiniBand;
    let value = ibv_port_attr {
        state: ibv_port_state::IBV_PORT_ACTIVE,
        max_mtu: limits::MTU_CODE,
        active_mtu: world.mtu.to_c(),
        gid_tbl_len: limits::GIDS as c_int,
        max_msg_sz: world.longest,
        qkey_viol_cntr: violations.into(),
        pkey_tbl_len: 1,
        lid,
        lmc: if is_infiniband { world.lmc } else { 0 },
        // The first device's port has a subnet manager.
        sm_lid: if is_infiniband { 1 << world.lmc } else { 0 },
        max_vl_num: 1,
        active_width: world.width,
        // As kernels do for programs that only know 8 bits.
        active_speed: world.speed.min(128) as u8,
        phys_state: 5, // link up
        link_layer: if is_infiniband { LINK_LAYER_INFINIBAND } else { LINK_LAYER_ETHERNET },
        // Whether an address must have a GRH.
        flags: (!is_infiniband).into(),
        ..zeroed()
    };
    // SAFETY: `attr` is writable (the verb's contract).
    unsafe { attr.write(PortAttr::new(value, world.speed)) };
    0
}

/// As in libibverbs, an empty entry of the table is all zeroes, not an error.
pub(crate) unsafe fn query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    // SAFETY: `context` is live (the verb's contract).
    let entry = unsafe { verb(context, |state, device| state.devices.get(&device)?.get(index)) };
    match entry {
        Some(entry) if port == 1 => {
            // SAFETY: `gid` is writable (the verb's contract).
            unsafe { gid.write(ibv_gid { raw: entry }) };
            0
        }
        _ => libc::EINVAL,
    }
}

pub(crate) unsafe fn query_gid_ex(
    context: *mut ibv_context,
    port: u8,
    index: u32,
    entry: *mut ibv_gid_entry,
) -> c_int {
    // SAFETY: `context` is live (the verb's contract).
    let found = unsafe { verb(context, |state, device| state.gid_entry(device, port, index)) };
    match found {
        Ok(found) => {
            // SAFETY: `entry` is writable (the verb's contract).
            unsafe { entry.write(found) };
            0
        }
        Err(errno) => errno,
    }
}

pub(crate) unsafe fn query_gid_table(
    context: *mut ibv_context,
    ports: &[(u8, u32)],
) -> Result<Vec<ibv_gid_entry>, c_int> {
    let all = ports.iter().flat_map(|&(port, len)| (0..len).map(move |index| (port, index)));
    let all: Vec<_> = all.collect();
    let ask = |state: &mut State, device| {
        let entries = all.iter().map(|&(port, index)| state.gid_entry(device, port, index));
        entries.filter(|entry| !matches!(entry, Err(libc::ENODATA))).collect()
    };
    // SAFETY: `context` is live (the verb's contract).
    unsafe { verb(context, ask) }
}

pub(crate) unsafe fn query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: `context` is live (the verb's contract).
    unsafe { verb(context, |_, _| ()) };
    if port != 1 || index != 0 {
        return libc::EINVAL;
    }
    // SAFETY: `pkey` is writable (the verb's contract).
    unsafe { pkey.write(0xffff) };
    0
}
