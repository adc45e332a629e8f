//! Rates, of a device that names no least one.

#![allow(unsafe_code)] // passes verbs on

use crate::provider_tests::SetControl;
use std::sync::Arc;

use super::*;
use crate::loopback::{Fabric, LOOPBACK};
use crate::prelude::*;
use crate::sys::control::Control;

/// No rate is none at all (R22.2): a device that says 0 of its least takes 1 kbit/s.
#[test]
fn the_least_rate() {
    let mut context = Fabric::new().open_alone();
    let handle = Arc::get_mut(&mut context.handle).unwrap();
    let control = Control {
        query_device_ex: |context| {
            // SAFETY: the caller's context.
            let mut attr = unsafe { (LOOPBACK.query_device_ex)(context) }?;
            attr.packet_pacing_caps.qp_rate_limit_min = 0;
            Ok(attr)
        },
        modify_qp_rate_limit: |_, attr| {
            // (A device that looked at the rate.)
            if attr.rate_limit == 0 { Err(1) } else { Ok(()) }
        },
        ..LOOPBACK
    };
    handle.set_control(Box::leak(Box::new(control)));
    let pd = context.alloc_pd().unwrap();
    let cq: CompletionQueue = context.create_cq(16).unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let mut qp: QueuePair<Rc, Rts> = QueuePair::from_core(qp.core);
    let can = context.abilities().unwrap().can::<PacketPacing<Rc>>().unwrap();
    qp.limit_rate(&can, Some(RateLimit::kbps(1))).unwrap();
    let error = qp.limit_rate(&can, Some(RateLimit::kbps(0))).unwrap_err();
    assert!(error.to_string().contains("0 kbit/s, of 1 at least"), "{error}");
}
