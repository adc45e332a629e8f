//! Conversion of address vectors to C and back.

use crate::attr::address::*;

fn routed() -> AddressVector {
    let global = GlobalRoute {
        dgid: Gid([7; 16]),
        sgid_index: 3,
        hop_limit: 9,
        traffic_class: 5,
        flow_label: 0xa_bcde,
    };
    let (sl, static_rate) = (ServiceLevel::new(15).unwrap(), StaticRate::Gbps40);
    AddressVector { port: 2, dlid: 11, sl, static_rate, src_path_bits: 3, global: Some(global) }
}

#[test]
fn each_field_has_its_place() {
    let c = routed().to_c();
    assert_eq!((c.is_global, c.port_num, c.dlid, c.sl), (1, 2, 11, 15));
    assert_eq!((c.src_path_bits, c.static_rate), (3, 7));
    let grh = &c.grh;
    assert_eq!((grh.sgid_index, grh.hop_limit, grh.traffic_class), (3, 9, 5));
    assert_eq!({ grh.flow_label }, 0xa_bcde);
    assert_eq!(AddressVector::from_c(&c), routed());
    let local = AddressVector::infiniband(1, 4);
    assert_eq!((local.to_c().is_global, local.to_c().dlid), (0, 4));
    assert_eq!((local.to_c().grh.sgid_index, { local.to_c().grh.flow_label }), (0, 0));
    assert_eq!(AddressVector::from_c(&local.to_c()), local);
}

#[test]
fn a_flow_label_has_twenty_bits() {
    let mut vector = routed();
    for (asked, told) in [(u32::MAX, 0xf_ffff), (0xf_ffff, 0xf_ffff), (0x10_0000, 0), (0, 0)] {
        vector.global.as_mut().unwrap().flow_label = asked;
        assert_eq!({ vector.to_c().grh.flow_label }, told);
    }
}

#[test]
fn the_defaults_of_a_route() {
    let route = GlobalRoute::new(Gid([1; 16]), 4);
    assert_eq!((route.dgid, route.sgid_index, route.hop_limit), (Gid([1; 16]), 4, 64));
    assert_eq!((route.traffic_class, route.flow_label), (0, 0));
    let vector = AddressVector::roce(2, Gid([1; 16]), 4);
    assert_eq!((vector.port, vector.dlid, vector.sl.get(), vector.global), (2, 0, 0, Some(route)));
}

/// A 14-bit port number above 0xc000, to which all 20 bits of the label contribute.
#[test]
fn a_flow_label_is_a_source_port() {
    let port = |flow_label| GlobalRoute { flow_label, ..GlobalRoute::new(Gid::default(), 0) };
    let ports =
        [0, 1, 0x3fff, 0x4000, 0xf_c000, 0xf_ffff, 0x10_0001].map(|it| port(it).udp_sport());
    assert_eq!(ports, [0xc000, 0xc001, 0xffff, 0xc001, 0xc03f, 0xffc0, 0xc001]);
}
