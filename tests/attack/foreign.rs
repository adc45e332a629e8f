//! Objects passed where they do not belong.

use proverbs::prelude::*;
use proverbs::qp::{Limit, Max};

use crate::support::*;

/// A second context of the same device: its handles have the same numbers as the first one's.
fn other_context(dev: &Device) -> Context {
    match dev.kind {
        Kind::Loopback => Device::fabric().open_device(),
        _ => Context::open(&dev.ctx.name()).unwrap(),
    }
}

/// A queue pair rejects a completion queue of another context.
/// Proves R12.1.
#[test]
fn a_completion_queue_of_another_context() {
    let dev = Device::open();
    let (pd, here) = (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_cq::<Buf>(20).unwrap());
    let other = other_context(&dev);
    let there = other.create_cq::<Buf>(20).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    for (send, recv) in [(&there, &there), (&here, &there), (&there, &here)] {
        let error = pd.create_qp::<Rc, DefaultProfile>(send, recv, depth).unwrap_err();
        let text = "ibv_create_qp: the completion queue and the queue pair belong to different contexts: create both from one";
        assert_eq!(error.to_string(), text);
    }
    assert_eq!((here.unbooked(), there.unbooked()), (here.capacity(), there.capacity()));
    pd.create_qp::<Rc, DefaultProfile>(&here, &here, depth).unwrap();
}

/// A completion queue rejects a completion channel of another context.
#[test]
fn a_completion_channel_of_another_context() {
    let dev = Device::open();
    let other = other_context(&dev);
    let channel = other.create_comp_channel().unwrap();
    let error = dev.ctx.cq(20).channel(&channel).create::<Buf>().unwrap_err();
    let text = "ibv_create_cq: the completion channel and the completion queue belong to different contexts: create both from one";
    assert_eq!(error.to_string(), text);
    other.cq(20).channel(&channel).create::<Buf>().unwrap();
}

/// Every device would grant a limit whose lower 32 bits are 0, and it would hold for nothing.
///
/// A limit beyond 32 bits is rejected instead of truncated.
/// Proves R3.1.
#[test]
fn limits_beyond_32_bits() {
    profile! { Inline { max_inline: 4294967296 } }
    profile! { Gather { max_send_sge: 4294967296 } }
    profile! { Scatter { max_recv_sge: 8589934592 } }
    assert_eq!(<Max<4294967296> as Limit>::VALUE, u32::MAX);
    let dev = Device::open();
    let (pd, cq) = (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_cq::<Buf>(20).unwrap());
    let depth = Depth { send: 2, recv: 2 };
    assert!(pd.create_qp::<Rc, Inline>(&cq, &cq, depth).is_err());
    assert!(pd.create_qp::<Rc, Gather>(&cq, &cq, depth).is_err());
    assert!(pd.create_qp::<Rc, Scatter>(&cq, &cq, depth).is_err());
    let pool = pd.create_pool(1, 8).unwrap();
    assert!(pd.create_srq::<Rc, Buf, Max<4294967296>, ()>(&pool).is_err());
}
