//! Decoding of the numbers that devices and ports report.

use crate::attr::device::*;
use crate::attr::port::*;
use crate::types::{ibv_atomic_cap, ibv_device_attr, ibv_port_attr, zeroed};

fn port() -> ibv_port_attr {
    zeroed()
}

/// The attributes of a device without `active_speed_ex`.
fn tell(c: ibv_port_attr) -> PortAttr {
    PortAttr::from_c(&extended::PortAttr::new(c, 0))
}

#[test]
fn widths_and_speeds_of_a_link() {
    for (code, lanes) in [
        (0, None),
        (1, Some(1)),
        (2, Some(4)),
        (3, None),
        (4, Some(8)),
        (8, Some(12)),
        (16, Some(2)),
    ] {
        let attr = tell(ibv_port_attr { active_width: code, ..port() });
        assert_eq!(attr.lanes, lanes, "width {code}");
    }
    let speeds = [
        (0, None),
        (1, Some(25)),
        (2, Some(50)),
        (3, None),
        (4, Some(100)),
        (8, Some(100)),
        (16, Some(140)),
        (32, Some(250)),
        (64, Some(500)),
        (128, Some(1000)),
    ];
    for (code, speed) in speeds {
        let attr = tell(ibv_port_attr { active_speed: code, ..port() });
        assert_eq!(attr.lane_speed, speed, "speed {code}");
        let attr =
            extended::PortAttr::new(ibv_port_attr { active_speed: 7, ..port() }, code.into());
        let expected = if code == 0 { None } else { speed };
        assert_eq!(PortAttr::from_c(&attr).lane_speed, expected, "speed {code}, extended");
    }
    // Values beyond 8 bits.
    let attr = extended::PortAttr::new(ibv_port_attr { active_speed: 128, ..port() }, 256);
    assert_eq!(PortAttr::from_c(&attr).lane_speed, Some(2000));
}

#[test]
fn states_and_layers_of_a_port() {
    use ibv_port_state::*;
    let states = [
        (IBV_PORT_NOP, PortState::Unknown),
        (IBV_PORT_DOWN, PortState::Down),
        (IBV_PORT_INIT, PortState::Initializing),
        (IBV_PORT_ARMED, PortState::Armed),
        (IBV_PORT_ACTIVE, PortState::Active),
        (IBV_PORT_ACTIVE_DEFER, PortState::ActiveDefer),
    ];
    for (state, expected) in states {
        let attr = tell(ibv_port_attr { state, ..port() });
        assert_eq!((attr.state, attr.is_active), (expected, expected == PortState::Active));
    }
    let layers = [
        (0, LinkLayer::Unknown),
        (1, LinkLayer::InfiniBand),
        (2, LinkLayer::Ethernet),
        (3, LinkLayer::Unknown),
    ];
    for (link_layer, expected) in layers {
        assert_eq!(tell(ibv_port_attr { link_layer, ..port() }).link_layer, expected);
    }
}

#[test]
fn negative_device_limits_are_zero() {
    let mut c = zeroed::<ibv_device_attr>();
    (c.max_qp, c.max_cqe, c.max_sge) = (-1, 7, 0);
    for (to, from) in c.fw_ver.iter_mut().zip(b"1.2\0no") {
        *to = *from as _;
    }
    let attr = DeviceAttr::from_c(&c);
    assert_eq!((attr.max_qp, attr.max_cqe, attr.max_sge), (0, 7, 0));
    assert_eq!((attr.fw_ver.as_str(), attr.atomic_cap), ("1.2", AtomicCap::None));
    for (code, expected) in [
        (ibv_atomic_cap::IBV_ATOMIC_HCA, AtomicCap::Hca),
        (ibv_atomic_cap::IBV_ATOMIC_GLOB, AtomicCap::Global),
    ] {
        c.atomic_cap = code;
        assert_eq!(DeviceAttr::from_c(&c).atomic_cap, expected);
    }
}

#[test]
fn a_port_without_gids() {
    for (told, is) in [(-1, 0), (0, 0), (1, 1), (128, 128)] {
        let attr = tell(ibv_port_attr { gid_tbl_len: told, ..port() });
        assert_eq!(attr.gid_tbl_len, is);
    }
}
