//! The attributes of a device and of its ports, by the names that `ibv_devinfo -v` has for them.

use std::fmt::Display;

use proverbs::Context;
use proverbs::bounded::Mtu;
use proverbs::device::{AtomicCap, DeviceAttr, LinkLayer, PortAttr};

use crate::Result;

/// Entries of a GID table that are looked at; long tables are empty at their end.
const GIDS: u32 = 256;

pub fn device(context: &Context) -> Result<DeviceAttr> {
    let attr = context.query_device()?;
    let line = |name: &str, value: &dyn Display| println!("    {name:<28}{value}");
    line("fw_ver:", &attr.fw_ver);
    line("node_guid:", &attr.node_guid);
    line("sys_image_guid:", &attr.sys_image_guid);
    line("vendor_id:", &format!("{:#06x}", attr.vendor_id));
    line("vendor_part_id:", &attr.vendor_part_id);
    line("hw_ver:", &format!("{:#X}", attr.hw_ver));
    line("phys_port_cnt:", &attr.phys_port_cnt);
    line("max_mr_size:", &format!("{:#x}", attr.max_mr_size));
    line("page_size_cap:", &format!("{:#x}", attr.page_size_cap));
    line("max_qp:", &attr.max_qp);
    line("max_qp_wr:", &attr.max_qp_wr);
    line("device_cap_flags:", &format!("{:#010x}", attr.device_cap_flags.bits()));
    for (name, _) in attr.device_cap_flags.iter_names() {
        println!("    {:28}{name}", "");
    }
    let unnamed = attr.device_cap_flags.bits() & !proverbs::device::DeviceCap::all().bits();
    if unnamed != 0 {
        println!("    {:28}others {unnamed:#x}", "");
    }
    line("max_sge:", &attr.max_sge);
    line("max_sge_rd:", &attr.max_sge_rd);
    line("max_cq:", &attr.max_cq);
    line("max_cqe:", &attr.max_cqe);
    line("max_mr:", &attr.max_mr);
    line("max_pd:", &attr.max_pd);
    line("max_qp_rd_atom:", &attr.max_qp_rd_atom);
    line("max_res_rd_atom:", &attr.max_res_rd_atom);
    line("max_qp_init_rd_atom:", &attr.max_qp_init_rd_atom);
    line("atomic_cap:", &atomics(attr.atomic_cap));
    line("max_mw:", &attr.max_mw);
    line("max_mcast_grp:", &attr.max_mcast_grp);
    line("max_mcast_qp_attach:", &attr.max_mcast_qp_attach);
    line("max_ah:", &attr.max_ah);
    line("max_srq:", &attr.max_srq);
    line("max_srq_wr:", &attr.max_srq_wr);
    line("max_srq_sge:", &attr.max_srq_sge);
    line("max_pkeys:", &attr.max_pkeys);
    line("local_ca_ack_delay:", &attr.local_ca_ack_delay);
    Ok(attr)
}

pub fn port(context: &Context, port: u8) -> Result<()> {
    let attr = context.query_port(port)?;
    let line = |name: &str, value: &dyn Display| println!("        {name:<24}{value}");
    println!("    port: {port}");
    line("state:", &format!("{:?}", attr.state));
    line("max_mtu:", &mtu(attr.max_mtu));
    line("active_mtu:", &mtu(attr.active_mtu));
    line("sm_lid:", &attr.sm_lid);
    line("port_lid:", &attr.lid);
    line("port_lmc:", &attr.lmc);
    line("link_layer:", &layer(attr.link_layer));
    line("max_msg_sz:", &format!("{:#x}", attr.max_msg_sz));
    line("gid_tbl_len:", &attr.gid_tbl_len);
    line("pkey_tbl_len:", &attr.pkey_tbl_len);
    if let (Some(lanes), Some(speed)) = (attr.lanes, attr.lane_speed) {
        let speed = f64::from(speed) / 10.0;
        line("speed:", &format!("{lanes} x {speed} Gbit/s"));
    }
    gids(context, port, &attr);
    Ok(())
}

/// The filled entries. Providers answer an empty one by zeroes or by an error.
fn gids(context: &Context, port: u8, attr: &PortAttr) {
    for index in (0..attr.gid_tbl_len.min(GIDS)).filter_map(|index| u8::try_from(index).ok()) {
        if let Some(gid) = context.query_gid(port, index).ok().filter(|gid| !gid.is_zero()) {
            println!("        {:<24}{gid}", format!("GID[{index:3}]:"));
        }
    }
}

fn mtu(mtu: Option<Mtu>) -> String {
    mtu.map_or("invalid".into(), |mtu| mtu.bytes().to_string())
}

fn layer(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::InfiniBand => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::Unknown => "unspecified",
    }
}

fn atomics(cap: AtomicCap) -> &'static str {
    match cap {
        AtomicCap::None => "ATOMIC_NONE (0)",
        AtomicCap::Hca => "ATOMIC_HCA (1)",
        AtomicCap::Global => "ATOMIC_GLOB (2)",
    }
}
