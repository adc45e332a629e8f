//! Memory that peers can access.

use std::mem;

use proverbs::prelude::*;
use proverbs::raw::AsRaw;

use super::best::ONE;
use super::{Family, leak, looped, row};
use crate::own::{self, Own};
use crate::pieces::{self, Pieces};
use crate::stub::Stub;
use crate::twin::TwinBuf;
use crate::world::*;

/// The forms of `own`.
mod own_forms {
    use crate::form::form;
    use crate::own::{self, Own};

    form! { read64(own: Own) own::read(own, own.short) }
    form! { write64(own: Own) own::write(own, own.short) }
    form! { read4096(own: Own) own::read(own, own.long) }
    form! { write4096(own: Own) own::write(own, own.long) }
    form! { fanout(own: Own) own::result(own::fanout(own)) }
    form! { cloned(own: Own) own::result(own::cloned(own)) }
    form! { piece(own: Own) own::result(own::piece(own)) }
    form! { made(own: Own) own::result(own::made(own)) }
    form! { kept(own: Own) own::result(own::kept(own)) }
    form! { take(own: Own) own::result(own::take(own)) }
    form! { arena(own: Own) own::result(own::arena(own)) }
}

/// The forms of `pieces`.
mod pieces_forms {
    use crate::form::form;
    use crate::life::{ROUNDS, code};
    use crate::pieces::{self, Pieces};

    form! { piece(it: Pieces) code((0..ROUNDS).try_for_each(|_| pieces::one(it))) }
    form! { header(it: Pieces) code((0..ROUNDS).try_for_each(|_| pieces::header(it))) }
    form! { list16(it: Pieces) code((0..ROUNDS).try_for_each(|_| pieces::list16(it))) }
}

pub(super) fn in_pieces(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<pieces::Gathers>(&ground, &cq, 64);
    let region: MemoryRegion<RemoteAll> = ground.pd.register(own::LONG).expect("a region");
    let piece = || region.piece(0, 64).expect("a piece");
    let (world, twin) = ground.world(stub, qp, cq);
    // SAFETY: the region is live, and its key does not change.
    twin.pieces[0].lkey = unsafe { (*region.as_raw()).lkey };
    (twin.pieces[0].addr, twin.pieces[0].length) = (region.remote().addr(), own::LONG as u32);
    twin.region = TwinBuf::leaked(twin.pieces[0]);
    let World { qp, cq, at, mut bufs, .. } = world;
    // SAFETY: the slot is not used again, so its handle is taken once.
    let header = Some(unsafe { mem::ManuallyDrop::take(&mut bufs[0]) });
    let list = (0..16).map(|_| piece()).collect();
    let piece = Some(piece());
    let from = std::array::from_fn(|i| 100 + i);
    Family {
        name: "pieces",
        twins: ONE,
        signal_all: true,
        holds: false,
        world: leak(Pieces { qp, cq, at, header, piece, list, from, len: 64 }),
        restore: None,
        twin,
        rows: looped(rows![pieces_forms: piece header list16]),
    }
}

pub(super) fn owned(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let follower = || connected::<own::Fanout>(&ground, &cq, 64);
    let more = [follower(), follower()];
    let qp = connected::<own::Fanout>(&ground, &cq, 64);
    let answered = ground.cq();
    let answers = connected::<own::Answers>(&ground, &answered, 64);
    let region: MemoryRegion<RemoteAll> = ground.pd.register(own::LONG).expect("a region");
    let pool = ground.pd.create_pool(16, 64).expect("a pool");
    let arena = ground.pd.create_arena(1 << 16, 64).expect("an arena");
    let (world, twin) = ground.world(stub, qp, cq);
    twin.more = [0, 1].map(|i: usize| more[i].as_raw().cast());
    twin.answers = answers.as_raw().cast();
    twin.answered = answered.as_raw().cast();
    // SAFETY: the region is live, and its key does not change.
    twin.pieces[0].lkey = unsafe { (*region.as_raw()).lkey };
    let World { qp, cq, mut bufs, .. } = world;
    // SAFETY: the slot is not used again, so its handle is taken once.
    let record = Some(unsafe { mem::ManuallyDrop::take(&mut bufs[0]) });
    let [one, two] = more;
    let followers = [qp, one, two];
    let kept = Some(region.piece(0, 64).expect("a piece"));
    let at = region.remote().write();
    let remote = region.remote();
    (twin.to.addr, twin.to.rkey, twin.to.len) = (remote.addr(), remote.rkey(), remote.len() as u32);
    let bytes = [0; own::LONG];
    let (short, long, from) = (64, own::LONG, 0);
    let own = Own {
        followers,
        cq,
        record,
        at,
        answers,
        answered,
        kept,
        region,
        pool,
        arena,
        short,
        long,
        from,
        bytes,
    };
    Family {
        name: "own",
        twins: &["c0"],
        signal_all: true,
        holds: false,
        world: leak(own),
        restore: None,
        twin,
        rows: rows![own_forms: read64 write64 read4096 write4096 fanout cloned piece made kept take arena],
    }
}
