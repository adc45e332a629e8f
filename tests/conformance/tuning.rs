//! Settings that a device may support: event moderation, rates, connection options. Also null
//! regions.

use proverbs::device::{CqModeration, PacketPacing};
use proverbs::ext::tuning::{Ece, Moderation, RateLimit};
use proverbs::loopback::Personality;
use proverbs::memory::{Null, OpenBuf};
use proverbs::prelude::*;

use crate::support::*;

profile! { Pieces { entry: OpenBuf } }

/// Whether this device supports all of them.
fn is_able(dev: &Device) -> bool {
    dev.kind == Kind::Loopback && Device::personality() != Personality::Rxe
}

/// Proves R22.1.
#[test]
fn events_are_moderated() {
    let dev = Device::open();
    let channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = dev.ctx.cq(16).channel(&channel).create().unwrap();
    let can = dev.ctx.abilities().unwrap().can::<CqModeration>();
    let most = dev.ctx.query_device_ex().unwrap();
    assert_eq!(can.is_some(), most.max_cq_count != 0 && most.max_cq_period != 0);
    let Some(can) = can else {
        assert!(!is_able(&dev));
        return println!("R22.1: this device makes an event for each completion");
    };
    let (count, period) = (most.max_cq_count, most.max_cq_period);
    let told = Moderation::new(3, 7).map(|to| (to.cq_count(), to.cq_period()));
    assert_eq!((told, Moderation::new(0, 7), Moderation::new(3, 0)), (Some((3, 7)), None, None));
    cq.moderate(&can, Moderation::new(count, period)).unwrap();
    for (to, max) in [((count + 1, 1), count), ((1, period + 1), period)] {
        let error = cq.moderate(&can, Moderation::new(to.0, to.1)).unwrap_err();
        let (asked, max) = (u64::from(max) + 1, u64::from(max));
        assert!(
            matches!(error.kind(), ErrorKind::Limit { asked: a, max: m, .. } if (*a, *m) == (asked, max)),
            "{error}"
        );
    }
    cq.moderate(&can, None).unwrap();
    let other = Device::open();
    let mut foreign: CompletionQueue = other.ctx.create_cq(16).unwrap();
    let error = foreign.moderate(&can, None).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ContextMismatch { .. }), "{error}");
}

/// Proves R22.2.
#[test]
fn a_queue_pair_has_a_rate() {
    let mut p = Pair::<Rc, DefaultProfile>::new();
    let abilities = p.dev.ctx.abilities().unwrap();
    let most = p.dev.ctx.query_device_ex().unwrap();
    let can = abilities.can::<PacketPacing<Rc>>();
    assert_eq!(can.is_some(), most.packet_pacing_qpts.contains::<Rc>());
    assert!(p.dev.kind != Kind::Loopback || abilities.can::<PacketPacing<Uc>>().is_none());
    let own = RateLimit { rate_limit: 7, max_burst_sz: 0, typical_pkt_sz: 0 };
    assert_eq!(RateLimit::kbps(7), own, "other values are the device's choice");
    let Some(can) = can else {
        assert!(!is_able(&p.dev));
        return println!("R22.2: this device limits no rates");
    };
    let limit =
        RateLimit { max_burst_sz: 4096, typical_pkt_sz: 1024, ..RateLimit::kbps(1_000_000) };
    p.a.limit_rate(&can, Some(limit)).unwrap();
    let error = p.a.limit_rate(&can, Some(RateLimit::kbps(u32::MAX))).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { asked: 0xffff_ffff, .. }), "{error}");
    p.a.limit_rate(&can, Some(RateLimit::kbps(most.qp_rate_limit_max))).unwrap();
    for low in [0, most.qp_rate_limit_min - 1] {
        let error = p.a.limit_rate(&can, Some(RateLimit::kbps(low))).unwrap_err();
        let expected = format!("({low} kbit/s, the minimum is {})", most.qp_rate_limit_min);
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
    if p.dev.kind == Kind::Loopback {
        let long = RateLimit { max_burst_sz: u32::MAX, ..limit };
        let error = p.a.limit_rate(&can, Some(long)).unwrap_err();
        assert!(error.to_string().contains("EINVAL"), "{error}");
    }
    p.a.limit_rate(&can, Some(RateLimit::kbps(most.qp_rate_limit_min))).unwrap();
    p.a.limit_rate(&can, None).unwrap();
    let mut other = Pair::<Rc, DefaultProfile>::new();
    let error = other.a.limit_rate(&can, None).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ContextMismatch { .. }), "{error}");
}

/// Proves R22.3.
#[test]
fn options_of_a_connection() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq: CompletionQueue = dev.ctx.create_cq(64).unwrap();
    let mut qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let offered = match qp.query_ece() {
        Ok(offered) if is_able(&dev) => offered,
        told => {
            assert!(!is_able(&dev), "{told:?}");
            return println!("R22.3: options of this device: {told:?}");
        }
    };
    assert_ne!(offered.options, 0);
    // If the peer supports other options, the result is the common ones.
    let first = offered.options & offered.options.wrapping_neg();
    qp.set_ece(Ece { options: first | !offered.options, ..offered }).unwrap();
    assert_eq!(qp.query_ece().unwrap(), Ece { options: first, ..offered });
    let error = qp.set_ece(Ece { vendor_id: offered.vendor_id + 1, ..offered }).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("ibv_set_ece", Some(22)));
    assert_eq!(qp.query_ece().unwrap().options, first);
}

/// Proves R22.4.
#[test]
fn a_region_of_no_memory() {
    let mut p = Pair::<Rc, Pieces>::new();
    let nothing: MemoryRegion<LocalWrite, Null> = match p.pd.alloc_null_mr() {
        Ok(nothing) => nothing,
        Err(error) => {
            assert!(!is_able(&p.dev));
            assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
            return;
        }
    };
    let table = p.pd.register::<RemoteReadWrite>(64).unwrap();
    table.write_at(0, &[7; 64]).unwrap();
    let at = |offset| table.remote().slice(offset, 16).unwrap();
    // All pieces are alike.
    let far = nothing.len() - 16;
    p.a.post_send(wr::RdmaRead::new(nothing.piece(far, 16).unwrap(), at(0).read())).unwrap();
    p.a.post_send(wr::RdmaWrite::new(nothing.piece(0, 16).unwrap(), at(16).write())).unwrap();
    p.a.post_send(wr::RdmaWrite::new(nothing.piece(far, 16).unwrap(), at(32).write())).unwrap();
    poll(&p.dev, &mut p.ca, 3);
    let mut now = [1; 64];
    table.read_at(0, &mut now).unwrap();
    assert_eq!((&now[..16], &now[48..]), (&[7; 16][..], &[7; 16][..]));
    assert_eq!(now[16..48], [0; 32]);
    assert!(nothing.piece(far, 17).is_err());
    // A provider may copy a short message with the processor (R18.18).
    let refused = wr::Recv::at(nothing.piece(0, 16).unwrap()).unwrap_err();
    assert!(refused.error.to_string().contains("the processor cannot access"), "{refused}");
    drop(refused);
    nothing.destroy().unwrap();
}
