//! Devices: opening, closing, and their attributes.

#![allow(unsafe_code)] // Contexts are raw pointers, and attributes are written through pointers.

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Device, hand_out, ops};
use crate::objects::events::Affiliate;
use crate::shared::Shared;
use crate::state::State;
use crate::verbs::tuning;
use crate::words::world::{Capacity, Link};
use crate::words::{Verb, clock, limits};
use proverbs_sys::events::AsyncEvent;
use proverbs_sys::extended::{PortAttr, ibv_device_attr_ex};
use proverbs_sys::gid::ibv_gid_entry;
use proverbs_sys::query::{RAW_CLOCK, ibv_values_ex};
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
    // SAFETY: just allocated, so not null and not shared yet. `device` is set to a place in the
    // allocation without making a reference.
    unsafe {
        (*whole).context.device = &raw mut (*whole).device;
        NonNull::new_unchecked(whole.cast())
    }
}

/// A C string as an array.
fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(text.bytes().take(N - 1)) {
        *to = from as c_char;
    }
    out
}

pub(super) fn device_attr(state: &mut State, device: u32) -> Verb<ibv_device_attr> {
    state.check_alive(device)?;
    let number = state.place_of(device);
    let is_iwarp = state.world.link == Link::Iwarp;
    Ok(ibv_device_attr {
        fw_ver: text("loopback"),
        node_guid: guid(number),
        sys_image_guid: guid(number),
        max_mr_size: state.world.region,
        page_size_cap: 4096,
        max_qp: 65536,
        max_qp_wr: limits::QP_WR as c_int,
        device_cap_flags: device_caps() | optional_caps(state),
        max_sge: state.world.most(Capacity::SendSge) as c_int,
        max_sge_rd: if is_iwarp { 1 } else { limits::SGE as c_int },
        max_cq: 65536,
        max_cqe: limits::CQE as c_int,
        max_mr: 65536,
        max_pd: 65536,
        max_qp_rd_atom: limits::RD_ATOMIC.into(),
        max_res_rd_atom: 65536 * c_int::from(limits::RD_ATOMIC),
        max_qp_init_rd_atom: limits::RD_ATOMIC.into(),
        atomic_cap: match is_iwarp {
            true => ibv_atomic_cap::IBV_ATOMIC_NONE,
            false => ibv_atomic_cap::IBV_ATOMIC_HCA,
        },
        max_ah: 65536,
        max_srq: 65536,
        max_srq_wr: limits::SRQ_WR as c_int,
        max_srq_sge: state.world.most(Capacity::SrqSge) as c_int,
        max_pkeys: 1,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        ..zeroed()
    })
}

pub(super) fn device_attr_ex(state: &mut State, device: u32) -> Verb<ibv_device_attr_ex> {
    let orig_attr = device_attr(state, device)?;
    let device_cap_flags_ex = orig_attr.device_cap_flags.into();
    let max_dm_size = state.max_dm_size();
    let mut value = ibv_device_attr_ex {
        orig_attr,
        device_cap_flags_ex,
        max_dm_size,
        phys_port_cnt_ex: 1,
        ..zeroed()
    };
    if state.world.link != Link::Iwarp {
        // FLUSH to both, and ATOMIC_WRITE.
        value.device_cap_flags_ex |= 0b111 << 38;
    }
    if !state.habits.is_rxe() {
        (value.cq_mod_caps.max_cq_count, value.cq_mod_caps.max_cq_period) = tuning::MODERATION;
        (value.packet_pacing_caps.qp_rate_limit_min, value.packet_pacing_caps.qp_rate_limit_max) =
            tuning::RATES;
        value.packet_pacing_caps.supported_qpts = 1 << ibv_qp_type::IBV_QPT_RC;
    }
    if let Some(ops) = state.habits.odp() {
        value.odp_caps.general_caps = 3; // on-demand regions, and the implicit one
        value.odp_caps.per_transport_caps = ops.map(|ops| ops.bits());
    }
    if state.habits.has_clock() {
        (value.completion_timestamp_mask, value.hca_core_clock) = (clock::MASK, clock::KHZ);
    }
    Ok(value)
}

/// Automatic path migration and XRC, if the device has them.
fn optional_caps(state: &State) -> u32 {
    use raw::ibv_device_cap_flags as cap;
    let has = |can, flag| if can { flag } else { 0 };
    has(state.can_migrate(), cap::IBV_DEVICE_AUTO_PATH_MIG.0)
        | has(state.has_xrc(), cap::IBV_DEVICE_XRC.0)
}

/// RNR NAK, resizable SRQs, and `IBV_QP_CUR_STATE`.
fn device_caps() -> u32 {
    use raw::ibv_device_cap_flags as cap;
    cap::IBV_DEVICE_RC_RNR_NAK_GEN.0
        | cap::IBV_DEVICE_SRQ_RESIZE.0
        | cap::IBV_DEVICE_CURR_QP_STATE_MOD.0
}

/// The GUID of a device's node, in network byte order.
fn guid(device: u32) -> u64 {
    (0x0200_00ff_fe00_0000 | u64::from(device.wrapping_add(1))).to_be()
}

pub(super) fn port_attr(state: &mut State, device: u32, port: u8) -> Verb<PortAttr> {
    state.check_alive(device)?;
    check_port(port)?;
    let world = &state.world;
    let violations = state.qkey_violations.get(&device).copied().unwrap_or(0);
    let is_infiniband = world.link == Link::InfiniBand;
    let value = ibv_port_attr {
        state: ibv_port_state::IBV_PORT_ACTIVE,
        max_mtu: limits::MTU_CODE,
        active_mtu: world.mtu.to_c(),
        gid_tbl_len: limits::GIDS as c_int,
        max_msg_sz: world.longest,
        qkey_viol_cntr: violations.into(),
        pkey_tbl_len: 1,
        lid: state.lid(device),
        lmc: if is_infiniband { world.lmc } else { 0 },
        // The first device's port has a subnet manager.
        sm_lid: if is_infiniband { 1 << world.lmc } else { 0 },
        max_vl_num: 1,
        active_width: world.width,
        // Kernels do the same for programs that read only the 8-bit field.
        active_speed: world.speed.min(128) as u8,
        phys_state: 5, // link up
        link_layer: if is_infiniband { LINK_LAYER_INFINIBAND } else { LINK_LAYER_ETHERNET },
        // Whether an address must have a GRH.
        flags: (!is_infiniband).into(),
        ..zeroed()
    };
    Ok(PortAttr::new(value, world.speed))
}

fn check_port(port: u8) -> Verb {
    if port == 1 { Ok(()) } else { Err(libc::EINVAL) }
}

/// As in libibverbs, an empty entry of the table is all zeroes, not an error.
pub(super) fn gid(state: &mut State, device: u32, port: u8, index: c_int) -> Verb<ibv_gid> {
    check_port(port)?;
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let entry = state.devices.get(&device).and_then(|gids| gids.get(index));
    entry.map(|raw| ibv_gid { raw }).ok_or(libc::EINVAL)
}

pub(super) fn gid_table(
    state: &mut State,
    device: u32,
    ports: &[(u8, u32)],
) -> Verb<Vec<ibv_gid_entry>> {
    let all = ports.iter().flat_map(|&(port, len)| (0..len).map(move |index| (port, index)));
    let entries = all.map(|(port, index)| state.gid_entry(device, port, index));
    entries.filter(|entry| !matches!(entry, Err(libc::ENODATA))).collect()
}

pub(super) fn pkey(_: &mut State, _: u32, port: u8, index: c_int) -> Verb<u16> {
    check_port(port)?;
    if index == 0 { Ok(0xffff) } else { Err(libc::EINVAL) }
}

/// The time of the next completion.
pub(super) fn rt_values(state: &mut State, device: u32, values: &mut ibv_values_ex) -> Verb {
    state.check_alive(device)?;
    if !state.habits.has_clock() {
        return Err(libc::EOPNOTSUPP);
    }
    let ticks = state.habits.time(state.completions + 1, state.now()).ticks;
    values.comp_mask &= RAW_CLOCK;
    values.raw_clock = libc::timespec { tv_sec: 0, tv_nsec: ticks as i64 };
    Ok(())
}

/// The next asynchronous event. It needs no acknowledgement: it returns the name that the user gave
/// the object, not a pointer.
pub(super) fn async_event(state: &mut State, device: u32) -> Verb<AsyncEvent> {
    let (event_type, of) = state.take_async(device)?;
    let affiliate = match of {
        Affiliate::Device => 0,
        Affiliate::Port => 1,
        Affiliate::Qp(number) => number.into(),
        Affiliate::Cq(number) => {
            let object = state.cqs.get(&number).and_then(|cq| cq.object);
            // SAFETY: the queue is in the fabric's state, so it is not destroyed, and the fabric is
            // locked.
            object.map_or(0, |object| unsafe { (*object.0.as_ptr()).cq_context }.addr() as u64)
        }
        Affiliate::Srq(number) => {
            let object = state.srqs.get(&number).and_then(|srq| srq.object);
            // SAFETY: the queue is in the fabric's state, so it is not destroyed, and the fabric is
            // locked.
            object.map_or(0, |object| unsafe { (*object.0.as_ptr()).srq_context }.addr() as u64)
        }
    };
    Ok(AsyncEvent { event_type, affiliate })
}
