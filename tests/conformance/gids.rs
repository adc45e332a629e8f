//! GID tables, the choice of a GID, and GIDs that cannot communicate.

use proverbs::bounded::Timeout;
use proverbs::completion::Direction;
use proverbs::device::{Gid, GidEntry, GidKind, LinkLayer, RoceV2Gid};
use proverbs::endpoint::{ConnectError, RcConnector, Stage};
use proverbs::prelude::*;

use crate::support::*;

fn is_ethernet(dev: &Device) -> bool {
    dev.ctx.query_port(1).unwrap().link_layer == LinkLayer::Ethernet
}

#[test]
fn a_table_has_the_entry_of_each_index() {
    fails_on!(Siw, "R18.22");
    let dev = Device::open();
    let table = dev.ctx.gid_table(1).unwrap();
    assert!(!table.is_empty());
    for entry in &table {
        assert_eq!(entry.gid, dev.ctx.query_gid(1, entry.index).unwrap());
        assert_eq!(dev.ctx.query_gid_entry(1, entry.index).unwrap(), *entry);
        assert_eq!((entry.port, entry.kind == GidKind::InfiniBand), (1, !is_ethernet(&dev)));
        assert_eq!(entry.ifindex.is_some(), entry.netdev().is_some());
        by_rule!(dev, "R18.22", loopback: (), rxe: assert!(entry.netdev().is_some()));
    }
    assert!(table.is_sorted_by_key(|entry| entry.index));
    let empty = (0..=255).find(|index| table.iter().all(|entry| entry.index != *index)).unwrap();
    let error = dev.ctx.query_gid_entry(1, empty).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("ibv_query_gid_ex: port 1 has no GID with index {empty}")
    );
    assert!(matches!(error.kind(), ErrorKind::NotFound(_)));
    assert!(dev.ctx.query_gid_entry(9, 0).is_err());
    assert_eq!(dev.ctx.gid_table(9).unwrap_err().errno(), Some(22));
}

/// A device is found by its properties in this network namespace.
#[test]
fn a_device_is_found_by_its_interface_and_its_addresses() {
    use proverbs::device::{Device as Listed, devices};
    let dev = Device::open();
    let name = dev.ctx.name();
    let Some(device) = devices().unwrap_or_default().into_iter().find(|it| it.name == name) else {
        assert_eq!(dev.kind, Kind::Loopback, "which is in no list");
        let refused = Listed::by_interface("no such interface").unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::NotFound(_) | ErrorKind::Absent(_)));
        return;
    };
    assert_eq!(device.pci_address, None, "of software");
    let port = &device.ports[0];
    assert_eq!((port.number, port.link_layer), (1, dev.ctx.query_port(1).unwrap().link_layer));
    let ports = [(&port.interfaces, &port.addresses)];
    let found = port.interfaces.iter().map(|name| Listed::by_interface(name).unwrap());
    let found: Vec<_> =
        found.chain(port.addresses.iter().map(|&ip| Listed::by_ip(ip).unwrap())).collect();
    assert!(found.len() >= 2, "{ports:?}");
    // Another device may be on the same interface.
    assert!(found.iter().all(|(_, its)| its.interfaces == port.interfaces), "{found:?}");
    assert!(Listed::nearest_to(0).unwrap().contains(&device));
    let error = Listed::by_ip([192, 0, 2, 9].into()).unwrap_err().to_string();
    assert!(error.contains("the IP address 192.0.2.9") && error.contains(&name), "{error}");
}

/// Proves R18.23.
#[test]
fn a_roce_v2_gid_is_chosen() {
    fails_on!(Siw, "R18.22");
    let dev = Device::open();
    if !is_ethernet(&dev) {
        let error = dev.ctx.roce_v2_gid(1).unwrap_err().to_string();
        let text = "port 1 (not Ethernet) has no RoCE v2 GID; its GIDs: [fe80::";
        assert!(error.contains(text) && error.contains("(InfiniBand)"), "{error}");
        return;
    }
    let source = dev.ctx.roce_v2_gid(1).unwrap();
    let entry: GidEntry = dev.ctx.query_gid_entry(1, source.index()).unwrap();
    assert_eq!((entry.gid, entry.kind, source.port()), (source.gid(), GidKind::RoceV2, 1));
    assert!(!source.gid().is_link_local());
    assert_eq!(RoceV2Gid::try_from(entry).unwrap(), source);
    let vector = AddressVector::roce_v2(source, source.gid()).unwrap();
    assert_eq!(vector, AddressVector::roce(1, source.gid(), source.index()));
    let link_local = Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let error = AddressVector::roce_v2(source, link_local).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable { .. }), "{error}");
}

/// A connection to an unreachable GID is rejected before RTR. The error has both GIDs.
/// Proves R18.22, R18.23.
#[test]
fn unreachable_gids_are_rejected_before_rtr() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq::<Buf>(40).unwrap();
    let connector = || {
        let depth = Depth { send: 2, recv: 2 };
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let qp = <Rc as Bring<DefaultProfile>>::init(qp, &Wish::new());
        RcConnector::new(qp, Some(dev.gid_index)).unwrap()
    };
    let mine = dev.ctx.query_gid_entry(1, dev.gid_index).unwrap();
    let peer = connector();
    assert_eq!(peer.endpoint().gid_kind(), Some(mine.kind));
    let here = format!("{} ({})", mine.gid, mine.kind);
    let other = GidKind::RoceV1;
    let elsewhere = Gid([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let link_local = Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    // The other scope than that of this side's GID.
    let far = if mine.gid.is_link_local() { elsewhere } else { link_local };
    for (gid, kind) in [(mine.gid, other), (far, mine.kind)] {
        let to = peer.endpoint().clone().with_gid(gid).with_gid_kind(kind);
        let (stage, error) = connector().connect_to(&to).unwrap_err().into_parts();
        let text = error.to_string();
        let start = format!("ibv_modify_qp: {gid} ({kind}) cannot be reached from {here}: ");
        assert!(text.starts_with(&start), "{text}");
        assert!(matches!(&error, ConnectError::Verbs(error)
            if matches!(error.kind(), ErrorKind::Unreachable { .. })));
        assert!(matches!(stage, Stage::Init(_)), "nothing was done");
        let error = to.address(&dev.ctx, 1, Some(dev.gid_index)).unwrap_err();
        assert_eq!(error.to_string(), text);
        // An endpoint without a kind is accepted.
        let unknown = peer.endpoint().clone().with_gid(gid);
        assert!(unknown.address(&dev.ctx, 1, Some(dev.gid_index)).is_ok());
    }
}

/// The reason for the rejection: packets of the other version do not arrive.
/// Proves R18.22.
#[test]
fn roce_v1_does_not_reach_roce_v2() {
    fails_on!(Iwarp, "R24.5", Device::open().kind != Kind::Siw);
    let dev = Device::open();
    if dev.kind != Kind::Loopback || !is_ethernet(&dev) {
        return; // Soft-RoCE has no RoCE v1.
    }
    let v1 = Device { gid_index: dev.gid_index + 2, ..dev.clone() };
    assert_eq!(dev.ctx.query_gid_entry(1, v1.gid_index).unwrap().kind, GidKind::RoceV1);
    for (from, to, arrives) in [(&v1, &v1, true), (&v1, &dev, false), (&dev, &v1, false)] {
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(2, 16).unwrap();
        let mut cq = dev.ctx.create_cq(40).unwrap();
        let wish = Wish { timeout: Timeout::MS_67, ..Wish::new() };
        let create = || pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
        let (a, b) = (create(), create());
        let (na, nb) = (a.qp_num(), b.qp_num());
        let (mut a, mut b) = (Rc::up(a, from, nb, &wish), Rc::up(b, to, na, &wish));
        b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        a.post_send(wr::Send::new(filled(&pool, b"hello"))).unwrap();
        let done = poll(&dev, &mut cq, if arrives { 2 } else { 1 });
        if !arrives {
            let failed = done.into_iter().next().unwrap();
            failed.failed(Direction::Send, WcStatus::RetryExc);
        }
    }
}
