//! On-demand memory and null regions: keys and pieces that outlive them, proofs of devices that are
//! gone. And settings on a device that breaks.

use proverbs::completion::{Direction, WcStatus};
use proverbs::device::{CqModeration, PacketPacing, Timestamps};
use proverbs::ext::on_demand::{Advice, OnDemand};
use proverbs::ext::tuning::{Ece, Moderation};
use proverbs::loopback::Personality;
use proverbs::memory::{Null, OpenBuf};
use proverbs::prelude::*;

use crate::support::*;

profile! { Pieces { entry: OpenBuf } }

/// The key is invalid once the region ended and the program owns its memory again.
#[test]
fn a_key_to_memory_on_demand_ends_with_its_region() {
    fails_on!(KeptRegions, "", Device::open().kind != Kind::Siw);
    let mut p = Pair::<Rc, DefaultProfile>::new();
    let can = p.dev.ctx.abilities().unwrap().can::<OnDemand<Rc, RemoteRead>>();
    let Some(can) = can else { return };
    let region = p.pd.region().on_demand(&can).create_in(vec![5u8; 64]).unwrap();
    let from = region.remote().slice(0, 8).unwrap().read();
    let mut memory = region.destroy().unwrap();
    memory.fill(6);
    p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), from)).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RemAccess);
    assert_eq!(memory, [6; 64]);
}

/// A proof from a closed device is not valid for the next one.
#[test]
fn a_proof_that_outlives_its_device() {
    let mut proofs = Vec::new();
    for _ in 0..4 {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        for can in &proofs {
            let refused = pd.region().on_demand(can).create_in(vec![1u8; 8]).unwrap_err();
            assert!(matches!(refused.error.kind(), ErrorKind::ContextMismatch { .. }), "{refused}");
        }
        proofs.extend(dev.ctx.abilities().unwrap().can::<OnDemand<Rc, RemoteRead>>());
        drop(pd);
        dev.ctx.destroy().unwrap();
    }
}

/// Pieces of a null region keep it alive after its handle and its domain's handle are gone.
#[test]
fn pieces_of_a_null_region_outlive_its_handle() {
    let mut p = Pair::<Rc, Pieces>::new();
    let Ok(nothing) = p.pd.alloc_null_mr() else { return };
    let nothing: MemoryRegion<LocalWrite, Null> = nothing;
    let table = p.pd.register::<RemoteReadWrite>(64).unwrap();
    table.write_at(0, &[7; 64]).unwrap();
    let (early, late) = (nothing.piece(0, 64).unwrap(), nothing.piece(8, 8).unwrap());
    let nothing = nothing.destroy().unwrap_err().into_object();
    drop(nothing);
    p.a.post_send(wr::RdmaRead::new(early, table.remote().read())).unwrap();
    let early = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    let at = table.remote().slice(0, 8).unwrap();
    p.a.post_send(wr::RdmaWrite::new(late, at.write())).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    let mut now = [1; 16];
    table.read_at(0, &mut now).unwrap();
    assert_eq!((&now[..8], &now[8..]), (&[0; 8][..], &[7; 8][..]));
    let Pair { pd, .. } = p;
    drop((pd, table));
    drop(early);
}

/// A broken device rejects all settings, and its buffers return.
#[test]
fn a_broken_device_rejects_settings() {
    fails_on!(KeptRegions, "", Device::open().kind != Kind::Siw);
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq: CompletionQueue = dev.ctx.create_cq(64).unwrap();
    let mut qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let abilities = dev.ctx.abilities().unwrap();
    let is_able = Device::personality() != Personality::Rxe;
    let moderates = abilities.can::<CqModeration>();
    assert_eq!(moderates.is_some(), is_able);
    assert_eq!(abilities.can::<PacketPacing<Rc>>().is_some(), is_able);
    let (Some(moderates), Some(clock), Some(pages)) =
        (moderates, abilities.can::<Timestamps>(), abilities.can::<OnDemand<Rc, RemoteRead>>())
    else {
        return;
    };
    let region = pd.region().on_demand(&pages).create_in(vec![5u8; 64]).unwrap();
    assert!(fabric.break_device(&dev.ctx));
    let errors = [
        cq.moderate(&moderates, Moderation::new(1, 1)).unwrap_err(),
        qp.set_ece(Ece::default()).unwrap_err(),
        qp.query_ece().unwrap_err(),
        dev.ctx.clock_now(&clock).unwrap_err(),
        region.prefetch(Advice::Prefetch, 0, 64).unwrap_err(),
        pd.alloc_null_mr().unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.errno(), Some(5), "{error}");
    }
    assert_eq!(region.destroy().unwrap(), [5; 64]);
}
