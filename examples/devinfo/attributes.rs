//! The attributes of a device and of its ports, line by line like `ibv_devinfo -v`.

use std::fmt::Display;

use proverbs::Context;
use proverbs::bounded::Mtu;
use proverbs::device::{
    AtomicCap, DeviceAttrEx, DeviceCap, GidKind, LinkLayer, OdpOps, PortAttr, PortState,
    TransportType,
};

use crate::Result;

/// A line: the tabs before it, its name and its value.
fn line(depth: usize, name: &str, value: &dyn Display) {
    let width = 31 - 8 * depth;
    println!("{}{name:<width$} {value}", "\t".repeat(depth));
}

pub fn device(context: &Context) -> Result<DeviceAttrEx> {
    let ex = context.query_device_ex()?;
    let attr = &ex.device;
    let tell = |name: &str, value: &dyn Display| line(1, name, value);
    tell("transport:", &transport(context.transport_type()));
    tell("fw_ver:", &attr.fw_ver);
    tell("node_guid:", &attr.node_guid);
    tell("sys_image_guid:", &attr.sys_image_guid);
    tell("vendor_id:", &format!("{:#06x}", attr.vendor_id));
    tell("vendor_part_id:", &attr.vendor_part_id);
    tell("hw_ver:", &format!("0x{:X}", attr.hw_ver));
    tell("phys_port_cnt:", &ex.phys_port_cnt_ex.max(attr.phys_port_cnt.into()));
    tell("max_mr_size:", &format!("{:#x}", attr.max_mr_size));
    tell("page_size_cap:", &format!("{:#x}", attr.page_size_cap));
    tell("max_qp:", &attr.max_qp);
    tell("max_qp_wr:", &attr.max_qp_wr);
    tell("device_cap_flags:", &format!("{:#010x}", attr.device_cap_flags.bits()));
    attr.device_cap_flags.iter_names().for_each(|(name, _)| flag(name));
    let unnamed = attr.device_cap_flags.bits() & !DeviceCap::all().bits();
    if unnamed != 0 {
        flag(&format!("Unknown flags: {unnamed:#X}"));
    }
    tell("max_sge:", &attr.max_sge);
    tell("max_sge_rd:", &attr.max_sge_rd);
    tell("max_cq:", &attr.max_cq);
    tell("max_cqe:", &attr.max_cqe);
    tell("max_mr:", &attr.max_mr);
    tell("max_pd:", &attr.max_pd);
    tell("max_qp_rd_atom:", &attr.max_qp_rd_atom);
    tell("max_ee_rd_atom:", &attr.max_ee_rd_atom);
    tell("max_res_rd_atom:", &attr.max_res_rd_atom);
    tell("max_qp_init_rd_atom:", &attr.max_qp_init_rd_atom);
    tell("max_ee_init_rd_atom:", &attr.max_ee_init_rd_atom);
    tell("atomic_cap:", &atomics(attr.atomic_cap));
    tell("max_ee:", &attr.max_ee);
    tell("max_rdd:", &attr.max_rdd);
    tell("max_mw:", &attr.max_mw);
    tell("max_raw_ipv6_qp:", &attr.max_raw_ipv6_qp);
    tell("max_raw_ethy_qp:", &attr.max_raw_ethy_qp);
    tell("max_mcast_grp:", &attr.max_mcast_grp);
    tell("max_mcast_qp_attach:", &attr.max_mcast_qp_attach);
    tell("max_total_mcast_qp_attach:", &attr.max_total_mcast_qp_attach);
    tell("max_ah:", &attr.max_ah);
    tell("max_fmr:", &attr.max_fmr);
    tell("max_srq:", &attr.max_srq);
    tell("max_srq_wr:", &attr.max_srq_wr);
    tell("max_srq_sge:", &attr.max_srq_sge);
    tell("max_pkeys:", &attr.max_pkeys);
    tell("local_ca_ack_delay:", &attr.local_ca_ack_delay);
    extended(&ex);
    tell("num_comp_vectors:", &context.comp_vectors().len());
    Ok(ex)
}

fn flag(name: &str) {
    println!("\t\t\t\t\t{name}");
}

/// The additional attributes of `ibv_query_device_ex`.
fn extended(ex: &DeviceAttrEx) {
    println!("\tgeneral_odp_caps:");
    [(ex.odp.is_supported, "ODP_SUPPORT"), (ex.odp.is_implicit, "ODP_SUPPORT_IMPLICIT")]
        .iter()
        .filter(|(is, _)| *is)
        .for_each(|(_, name)| flag(name));
    let odp = &ex.odp;
    for (name, ops) in [("rc", odp.rc), ("uc", odp.uc), ("ud", odp.ud), ("xrc", odp.xrc)] {
        println!("\t{name}_odp_caps:");
        if ops.is_empty() {
            flag("NO SUPPORT");
        }
        let named = ops.iter_names().filter(|(_, op)| OdpOps::all().contains(*op));
        named.for_each(|(name, _)| flag(&format!("SUPPORT_{}", name.replace("SRQ_RECV", "SRQ"))));
    }
    match ex.completion_timestamp_mask {
        0 => println!("\tcompletion_timestamp_mask not supported"),
        mask => line(1, "completion_timestamp_mask:", &format!("{mask:#018x}")),
    }
    match ex.hca_core_clock {
        0 => println!("\tcore clock not supported"),
        clock => line(1, "hca_core_clock:", &format!("{clock}kHZ")),
    }
    line(1, "device_cap_flags_ex:", &format!("0x{:X}", ex.device_cap_flags_ex));
    // The lower half is printed above.
    let mut unnamed = ex.device_cap_flags_ex >> 32 << 32;
    for (bit, name) in [(34, "RAW_SCATTER_FCS"), (36, "PCI_WRITE_END_PADDING")] {
        if unnamed & 1 << bit != 0 {
            flag(name);
            unnamed &= !(1 << bit);
        }
    }
    if unnamed != 0 {
        flag(&format!("Unknown flags: {unnamed:#X}"));
    }
    println!("\ttso_caps:");
    line(2, "max_tso:", &ex.max_tso);
    println!("\trss_caps:");
    line(2, "max_rwq_indirection_tables:", &ex.max_rwq_indirection_tables);
    line(2, "max_rwq_indirection_table_size:", &ex.max_rwq_indirection_table_size);
    line(2, "rx_hash_function:", &format!("{:#x}", ex.rx_hash_function));
    line(2, "rx_hash_fields_mask:", &format!("0x{:X}", ex.rx_hash_fields_mask));
    line(1, "max_wq_type_rq:", &ex.max_wq_type_rq);
    println!("\tpacket_pacing_caps:");
    line(2, "qp_rate_limit_min:", &format!("{}kbps", ex.qp_rate_limit_min));
    line(2, "qp_rate_limit_max:", &format!("{}kbps", ex.qp_rate_limit_max));
    if ex.tm_max_num_tags == 0 {
        println!("\ttag matching not supported");
    } else {
        line(1, "max_rndv_hdr_size:", &ex.tm_max_rndv_hdr_size);
        line(1, "max_num_tags:", &ex.tm_max_num_tags);
        line(1, "max_ops:", &ex.tm_max_ops);
        line(1, "max_sge:", &ex.tm_max_sge);
    }
    if ex.max_cq_count != 0 {
        println!("\tcq moderation caps:");
        line(2, "max_cq_count:", &ex.max_cq_count);
        line(2, "max_cq_period:", &format!("{} us", ex.max_cq_period));
    }
    if ex.max_dm_size != 0 {
        line(1, "maximum available device memory:", &format!("{}Bytes", ex.max_dm_size));
    }
}

pub fn port(context: &Context, port: u8) -> Result<()> {
    let attr = context.query_port(port)?;
    let tell = |name: &str, value: &dyn Display| println!("\t\t\t{name:<24}{value}");
    println!("\t\tport:\t{port}");
    tell("state:", &state(attr.state));
    tell("max_mtu:", &mtu(attr.max_mtu));
    tell("active_mtu:", &mtu(attr.active_mtu));
    tell("sm_lid:", &attr.sm_lid);
    tell("port_lid:", &attr.lid);
    tell("port_lmc:", &format!("{:#04x}", attr.lmc));
    tell("link_layer:", &layer(attr.link_layer));
    tell("max_msg_sz:", &format!("{:#x}", attr.max_msg_sz));
    tell("port_cap_flags:", &format!("{:#010x}", attr.port_cap_flags));
    tell("port_cap_flags2:", &format!("{:#06x}", attr.port_cap_flags2));
    tell("max_vl_num:", &lanes_of_service(attr.max_vl_num));
    tell("bad_pkey_cntr:", &format!("{:#x}", attr.bad_pkey_cntr));
    tell("qkey_viol_cntr:", &format!("{:#x}", attr.qkey_viol_cntr));
    tell("sm_sl:", &attr.sm_sl);
    tell("pkey_tbl_len:", &attr.pkey_tbl_len);
    tell("gid_tbl_len:", &attr.gid_tbl_len);
    tell("subnet_timeout:", &attr.subnet_timeout);
    tell("init_type_reply:", &attr.init_type_reply);
    tell("active_width:", &width(&attr));
    tell("active_speed:", &speed(&attr));
    if attr.link_layer == LinkLayer::Ethernet || attr.phys_state != 0 {
        tell("phys_state:", &physical(attr.phys_state));
    }
    for entry in context.gid_table(port)? {
        let gid = match entry.kind {
            GidKind::RoceV2 => format!("{}, RoCE v2", entry.gid),
            GidKind::RoceV1 => format!("{}, RoCE v1", groups(entry.gid.0)),
            _ => groups(entry.gid.0),
        };
        tell(&format!("GID[{:3}]:", entry.index), &gid);
    }
    Ok(())
}

/// All eight groups of four digits.
fn groups(gid: [u8; 16]) -> String {
    let groups: Vec<_> = gid.chunks(2).map(|two| format!("{:02x}{:02x}", two[0], two[1])).collect();
    groups.join(":")
}

fn transport(transport: TransportType) -> &'static str {
    match transport {
        TransportType::InfiniBand => "InfiniBand (0)",
        TransportType::Iwarp => "iWARP (1)",
        TransportType::Usnic => "usNIC (2)",
        TransportType::UsnicUdp => "usNIC UDP (3)",
        TransportType::Unspecified => "unspecified (4)",
        _ => "invalid transport",
    }
}

fn state(state: PortState) -> &'static str {
    match state {
        PortState::Down => "PORT_DOWN (1)",
        PortState::Initializing => "PORT_INIT (2)",
        PortState::Armed => "PORT_ARMED (3)",
        PortState::Active => "PORT_ACTIVE (4)",
        PortState::ActiveDefer => "PORT_ACTIVE_DEFER (5)",
        PortState::Unknown => "invalid state",
    }
}

fn mtu(mtu: Option<Mtu>) -> String {
    let Some(mtu) = mtu else { return "invalid MTU".into() };
    let bytes = mtu.bytes();
    format!("{bytes} ({})", bytes.ilog2() - 7)
}

fn lanes_of_service(code: u8) -> String {
    let lanes = match code {
        1 => "1",
        2 => "2",
        3 => "4",
        4 => "8",
        5 => "15",
        _ => "invalid value",
    };
    format!("{lanes} ({code})")
}

fn width(attr: &PortAttr) -> String {
    let code = attr.active_width;
    attr.lanes.map_or(format!("invalid width ({code})"), |lanes| format!("{lanes}X ({code})"))
}

fn speed(attr: &PortAttr) -> String {
    let code = attr.active_speed;
    let Some(speed) = attr.lane_speed else { return format!("invalid speed ({code})") };
    format!("{:.1} Gbps ({code})", f64::from(speed) / 10.0)
}

fn physical(code: u8) -> String {
    let state = match code {
        1 => "SLEEP",
        2 => "POLLING",
        3 => "DISABLED",
        4 => "PORT_CONFIGURATION TRAINNING",
        5 => "LINK_UP",
        6 => "LINK_ERROR_RECOVERY",
        7 => "PHY TEST",
        _ => "invalid physical state",
    };
    format!("{state} ({code})")
}

fn layer(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::InfiniBand => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::Unknown => "Unspecified",
    }
}

fn atomics(cap: AtomicCap) -> &'static str {
    match cap {
        AtomicCap::None => "ATOMIC_NONE (0)",
        AtomicCap::Hca => "ATOMIC_HCA (1)",
        AtomicCap::Global => "ATOMIC_GLOB (2)",
    }
}
