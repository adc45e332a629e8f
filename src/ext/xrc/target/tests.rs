//! The endpoint of a target, which is sent to the peer.

#![allow(unsafe_code)] // forwards verbs

use crate::provider_tests::device_with;
use std::cell::Cell;

use super::*;
use crate::endpoint::Endpoint;
use crate::loopback::{Fabric, LOOPBACK, World};
use crate::prelude::*;
use crate::sys::control::Control;
use crate::terms::bounded::SrqNum;

/// The endpoint of a target has the attributes of its port.
#[test]
fn an_endpoint_is_of_its_port() {
    thread_local! {
        static ASKED: Cell<u8> = const { Cell::new(0) };
    }
    let control = Control {
        query_port: |context, port| {
            ASKED.set(port);
            // SAFETY: the arguments come from the caller, except for the port, which exists.
            unsafe { (LOOPBACK.query_port)(context, 1) }
        },
        ..LOOPBACK
    };
    let context = device_with(Fabric::with(World::infiniband()), control);
    let can = context.abilities().unwrap().can::<Xrc>().unwrap();
    let domain = context.open_xrcd(&can, crate::ext::xrc::XrcdFile::Private).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let mut target = domain.create_target().unwrap().modify(init).unwrap();
    for port in [1, 2] {
        target.port = port;
        ASKED.set(0);
        let endpoint = Endpoint::of_target(&target, SrqNum::new(9).unwrap(), None).unwrap();
        assert_eq!((ASKED.get(), endpoint.qpn().get()), (port, target.qp_num()));
        assert_eq!(endpoint.depth(), Depth { send: 0, recv: 0 }, "it posts nothing");
    }
}
