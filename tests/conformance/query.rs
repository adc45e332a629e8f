//! The attributes of devices and queue pairs.

use std::time::Duration;

use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount};
use proverbs::device::{
    AtomicCap, Can, DeviceMemory, FlushGlobal, ForkStatus, LinkLayer, MemoryWindows2B, NodeType,
    ResizeSrq, Timestamps, fork_status,
};
use proverbs::ext::on_demand::OnDemand;
use proverbs::loopback::Personality;
use proverbs::prelude::*;
use proverbs::qp::RtrOptional;
use proverbs::state::QpState;

use crate::support::*;

/// Proves R2.11.
#[test]
fn a_device_reports_its_limits() {
    fails_on!(IwarpOtherwise, "R24.4");
    let dev = Device::open();
    let attr = dev.ctx.query_device().unwrap();
    assert!(attr.phys_port_cnt >= 1);
    for limit in [attr.max_qp, attr.max_qp_wr, attr.max_sge, attr.max_cqe, attr.max_srq_wr] {
        assert!(limit > 0, "{attr:?}");
    }
    assert!(attr.max_qp_rd_atom >= 4 && attr.max_qp_init_rd_atom >= 4);
    assert_ne!(attr.atomic_cap, AtomicCap::None);
    let name = dev.ctx.name();
    assert_eq!(format!("{:?}", dev.ctx), format!("Context({name})"));
    match dev.kind {
        Kind::Loopback => assert_eq!(name, "loop0"),
        _ => assert!(devices().unwrap().iter().any(|device| device.name == name)),
    }
}

/// Proves R18.26.
#[test]
fn a_device_reports_optional_features() {
    fails_on!(Siw, "R18.17");
    let (dev, other) = (Device::open(), Device::open());
    let attr = dev.ctx.query_device_ex().unwrap();
    let plain = dev.ctx.query_device().unwrap();
    assert_eq!(format!("{:?}", attr.device), format!("{plain:?}"));
    let flags = attr.device_cap_flags_ex as u32;
    assert_eq!(flags, plain.device_cap_flags.bits());
    assert_eq!(attr.phys_port_cnt_ex, plain.phys_port_cnt.into());
    let abilities = dev.ctx.abilities().unwrap();
    let resize: Can<ResizeSrq> = abilities.can().expect("SRQ_RESIZE");
    assert!(resize.clone().is_of(&dev.ctx) && !resize.is_of(&other.ctx));
    assert_eq!(format!("{resize:?}"), "Can(SRQ_RESIZE)");
    let windows = by_rule!(dev, "R18.26", loopback: false, rxe: true);
    assert_eq!(abilities.can::<MemoryWindows2B>().is_some(), windows);
    let is_rxe = dev.kind == Kind::Rxe || Device::personality() == Personality::Rxe;
    assert_eq!(abilities.can::<DeviceMemory>().is_none(), is_rxe);
    assert_eq!(abilities.can::<DeviceMemory>().is_some(), attr.max_dm_size != 0);
    assert_eq!(abilities.can::<Timestamps>().is_none(), is_rxe);
    assert_eq!(attr.clock().is_none(), is_rxe);
    assert_eq!(abilities.can::<OnDemand<Rc, RemoteRead>>().is_some(), !is_rxe);
    let pages = by_rule!(dev, "R20.5", loopback: !is_rxe, rxe from (6, 15): true);
    assert_eq!(attr.odp.is_supported, pages);
    assert_eq!(abilities.can::<FlushGlobal>().is_some(), attr.device_cap_flags_ex & 1 << 38 != 0);
    // A proof does not keep the device open.
    let proof = other.ctx.abilities().unwrap().can::<ResizeSrq>();
    other.ctx.destroy().unwrap();
    assert!(proof.is_some_and(|proof| !proof.is_of(&dev.ctx)));
}

/// Further queries, for the features that the device reports.
/// Proves R21.2.
#[test]
fn optional_queries() {
    let (dev, other) = (Device::open(), Device::open());
    let node = if dev.is_iwarp() { NodeType::Rnic } else { NodeType::ChannelAdapter };
    assert_eq!(dev.ctx.node_type(), node);
    println!("{} is {:?} to the kernel", dev.ctx.name(), dev.ctx.device_index());
    assert!(dev.kind != Kind::Loopback || dev.ctx.device_index().is_some());
    let default = dev.ctx.pkey_index(1, 0xffff).ok();
    assert_eq!(default, by_rule!(dev, "R8.12", loopback: Some(0), siw: None));
    let error = dev.ctx.pkey_index(1, 0x1234).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound(_)), "{error}");
    assert_eq!(dev.ctx.pkey_index(9, 0xffff).unwrap_err().verb(), "ibv_query_port");
    let port = dev.ctx.query_port(1).unwrap();
    let told = port.lanes.zip(port.lane_speed).map(|(n, speed)| u64::from(n) * u64::from(speed));
    assert_eq!(dev.ctx.query_port_speed(1).ok(), told);
    assert!(dev.ctx.query_port_speed(9).is_err());
    let attr = dev.ctx.query_device_ex().unwrap();
    assert!(!attr.tso_qpts.contains::<Rc>() && !attr.rss_qpts.contains::<Ud>());
    if let Some(can) = dev.ctx.abilities().unwrap().can::<Timestamps>() {
        let now = dev.ctx.clock_now(&can).unwrap();
        assert_eq!(now & attr.completion_timestamp_mask, now);
        if dev.kind == Kind::Loopback {
            let fabric = Device::fabric();
            let here = fabric.open_device();
            let can = here.abilities().unwrap().can::<Timestamps>().unwrap();
            let clock = here.query_device_ex().unwrap().clock().unwrap();
            fabric.stop_clock();
            let before = here.clock_now(&can).unwrap();
            fabric.advance(Duration::from_millis(3));
            let passed = clock.between(before, here.clock_now(&can).unwrap());
            assert_eq!(passed, Duration::from_millis(3));
        }
        let error = other.ctx.clock_now(&can).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ContextMismatch { .. }), "{error}");
    }
}

/// Whether a device promises the order in which data arrives.
/// Proves R21.1.
#[test]
fn a_device_reports_whether_data_is_in_order() {
    let p = Pair::<Rc, DefaultProfile>::new();
    let told = [
        p.b.data_in_order::<wr::Send>(),
        p.b.data_in_order::<wr::RdmaWrite>(),
        p.a.data_in_order::<wr::RdmaRead>(),
    ];
    if p.dev.kind == Kind::Loopback {
        assert_eq!(told, [Device::personality() == Personality::Plain; 3]);
    }
}

#[test]
fn a_port_reports_its_state() {
    fails_on!(Siw, "R8.12");
    let dev = Device::open();
    let port = dev.ctx.query_port(1).unwrap();
    assert!(port.is_active);
    assert_eq!(port.link_layer, LinkLayer::Ethernet);
    assert!(port.active_mtu.unwrap() <= port.max_mtu.unwrap());
    assert!(u32::from(dev.gid_index) < port.gid_tbl_len);
    assert!(!dev.gid().is_zero());
    assert_eq!(dev.ctx.query_pkey(1, 0).unwrap(), 0xffff);
    let error = dev.ctx.query_port(9).unwrap_err();
    let text =
        "ibv_query_port: EINVAL: Invalid argument (port 9 does not exist: this device has 1 port)";
    assert_eq!(said(&error), text);
}

/// Proves R8.6.
#[test]
fn a_queue_pair_reports_its_attributes() {
    fails_on!(IwarpOtherwise, "R24.5");
    let p = Pair::<Rc>::new();
    let attr = p.a.query().unwrap();
    assert_eq!(attr.state, Some(QpState::Rts));
    assert_eq!(attr.path_mtu, Some(Mtu::Bytes1024));
    assert_eq!(attr.dest_qpn, p.b.qp_num());
    assert_eq!((attr.port, attr.access), (1, QpAccess::all()));
    assert_eq!((attr.rq_psn, attr.sq_psn), (Wish::new().psn, Wish::new().psn));
    assert_eq!((attr.max_rd_atomic, attr.max_dest_rd_atomic), (4, 4));
    let wish = Wish::new();
    assert_eq!((attr.timeout, attr.rnr_retry), (Some(wish.timeout), Some(wish.rnr_retry)));
    assert_eq!((attr.retry_cnt, attr.min_rnr_timer), (RetryCount::new(6), MinRnrTimer::new(1)));
    assert_eq!(attr.pkey_index, 0);
    assert!(!attr.sq_draining);
    assert_ne!(p.a.qp_num(), p.b.qp_num());
    assert_eq!(format!("{:?}", p.a), format!("QueuePair(RC {:#08x}, Rts)", p.a.qp_num()));

    let p = Pair::<Ud>::new();
    let attr = p.a.query().unwrap();
    assert_eq!((attr.state, attr.qkey), (Some(QpState::Rts), QKEY));
}

/// Proves R4.8.
#[test]
fn depths_of_reads_and_atomics() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq(20).unwrap();
    let wish = Wish::new();
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
    let number = qp.qp_num();
    let qp = <Rc as Bring<DefaultProfile>>::init(qp, &wish);
    let qp = qp
        .modify(RcRtr {
            address: dev.vector(),
            path_mtu: Mtu::Bytes256,
            dest_qpn: Qpn::new(number).unwrap(),
            rq_psn: Psn::MAX,
            max_dest_rd_atomic: ResponderDepth::new(5).unwrap(),
            min_rnr_timer: MinRnrTimer::MAX,
            optional: RtrOptional::default(),
        })
        .unwrap();
    let depth = by_rule!(dev, "R4.8", loopback: 5, rxe: 8);
    let attr = qp.query().unwrap();
    assert_eq!((attr.max_dest_rd_atomic, attr.path_mtu), (depth, Some(Mtu::Bytes256)));
    assert_eq!((attr.rq_psn, attr.dest_qpn), (0xff_ffff, number));
}

/// Proves R17.4.
#[test]
#[cfg_attr(miri, ignore = "calls libibverbs, which Miri cannot")]
fn a_fork_and_registered_memory() {
    let dev = Device::open();
    by_rule!(dev, "R17.4",
        // This kernel has no RDMA, so it does not report that it copies pinned pages; the library
        // was not asked to.
        loopback: assert_ne!(fork_status(), ForkStatus::Enabled),
        rxe: assert_eq!(fork_status(), ForkStatus::Unneeded));
}
