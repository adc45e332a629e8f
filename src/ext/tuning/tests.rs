//! Rate limits of a device that reports no minimum.

#![allow(unsafe_code)] // forwards verbs

use crate::provider_tests::SetControl;
use std::sync::Arc;

use super::*;
use crate::loopback::{Fabric, LOOPBACK};
use crate::prelude::*;
use crate::sys::control::Control;

/// A rate of 0 means no limit (R22.2), so a device that reports a minimum of 0 accepts 1 kbit/s.
#[test]
fn the_least_rate() {
    let mut context = Fabric::new().open_alone();
    let handle = Arc::get_mut(&mut context.handle).unwrap();
    let control = Control {
        query_device_ex: |context| {
            // SAFETY: the context comes from the caller.
            let mut attr = unsafe { (LOOPBACK.query_device_ex)(context) }?;
            attr.packet_pacing_caps.qp_rate_limit_min = 0;
            Ok(attr)
        },
        modify_qp_rate_limit: |_, attr| {
            // (A device that checks the rate.)
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
    assert!(error.to_string().contains("0 kbit/s, the minimum is 1"), "{error}");
}
