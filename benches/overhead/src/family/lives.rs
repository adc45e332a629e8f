//! Loops of realistic programs.

use std::mem;

use proverbs::prelude::*;
use proverbs::qp::Max;
use proverbs::raw::AsRaw;

use super::best::ONE;
use super::ready::filled;
use super::{Family, Fed, Row, leak, row};
use crate::c::ibv_sge;
use crate::life::{self, Life};
use crate::stub::{Form, Stub};
use crate::twin::{TwinBuf, TwinEnd};
use crate::world::*;

/// The forms of `life`, as the stub calls them.
mod forms {
    use crate::form::form;
    use crate::life::{self, Datagrams, Life, Ring, code};

    form! { readme(life: Life) code(life::readme(life)) }
    form! { prepared(life: Life) code(life::prepared(life)) }
    form! { prepared_write(life: Life) code(life::prepared_write(life)) }
    form! { prepared_inline(life: Life) code(life::prepared_inline(life)) }
    form! { full(life: Life) code(life::full(life)) }
    form! { set_len(life: Life) code(life::set_len(life)) }
    form! { pool_row(life: Life) code(life::pool(life)) }
    form! { from_arena(life: Life) code(life::from_arena(life)) }
    form! { faa(life: Life) code(life::faa(life)) }
    form! { prime1(life: Life) code(life::prime::<1, false>(life)) }
    form! { prime8(life: Life) code(life::prime::<8, false>(life)) }
    form! { prime_shared16(life: Life) code(life::prime::<16, true>(life)) }
    form! { echo(life: Life) code(life::echo(life)) }
    form! { echo_outcome(life: Life) code(life::echo_outcome(life)) }
    form! { shared(life: Life) code(life::shared(life)) }
    form! { shared_outcome(life: Life) code(life::shared_outcome(life)) }
    form! { prime_datagrams(life: Datagrams) code(life::prime_datagrams(life)) }
    form! { datagrams(life: Datagrams) code(life::datagrams(life)) }
    form! { chain4(life: Ring) code(crate::best::chain4(life)) }
}

/// A row of `life`.
fn living(name: &'static str, rust: Form) -> Row {
    Row { items: life::ROUNDS, ..row(name, rust) }
}

fn slots(bufs: &mut [mem::ManuallyDrop<Buf>]) -> [Option<Buf>; 16] {
    // SAFETY: the slots are not used again, so each handle is taken once.
    let mut slots = bufs.iter_mut().map(|buf| unsafe { mem::ManuallyDrop::take(buf) });
    std::array::from_fn(|_| slots.next())
}

pub(super) fn lives(stub: &Stub) -> Family {
    use forms::*;

    let ground = Ground::new();
    let cq = ground.cq();
    let srq = ground.pd.create_srq::<Rc, Buf, Max<1>, ()>(&ground.pool).expect("a shared queue");
    let fed = ground.pd.create_qp::<Rc, Fed>(&cq, &cq, Depth::on_srq(16, &srq));
    mem::forget(bring_up(&ground, fed.expect("a queue pair")));
    let other = connected::<DefaultProfile>(&ground, &cq, 64);
    let shallow = connected::<DefaultProfile>(&ground, &cq, 1);
    let qp = connected::<DefaultProfile>(&ground, &cq, 1024);
    let pool = ground.pool.clone();
    let heap = ground.pd.create_arena(1 << 20, 64).expect("an arena");
    let buf = heap.take(64).expect("a buffer"); // the next one has the same bytes
    let (world, twin) = ground.world(stub, qp, cq);
    twin.other = other.as_raw().cast();
    twin.shallow = shallow.as_raw().cast();
    twin.srq = srq.as_raw().cast();
    // SAFETY: the arena's region is live, and its key does not change.
    let lkey = unsafe { (*heap.as_raw()).lkey };
    let addr = buf.as_ptr().expose_provenance() as u64;
    twin.in_arena = TwinBuf::leaked(ibv_sge { addr, length: 64, lkey });
    drop(buf);
    (twin.ends[1], twin.add) = (TwinEnd::of(&other), 1);
    let World { qp, cq, at, cell, from, operands, mut bufs, .. } = world;
    let slots = slots(&mut bufs);
    // The pool then returns the same buffer as the C code's stack of free buffers. SAFETY: no slot
    // contains it, and it is taken once.
    drop(unsafe { mem::ManuallyDrop::take(&mut bufs[crate::twin::MOST - 1]) });
    let primed = |name, twin, rust, prime, in_flight| Row {
        twin,
        prime: Some(prime),
        items: in_flight * life::ROUNDS,
        ..row(name, rust)
    };
    let filled = filled(at);
    let ready = life::Ready {
        send: Some(filled.send),
        write: Some(filled.write),
        inline_send: Some(filled.inline_send),
        read: Some(wr::RdmaRead::new(wr::Placeholder, from).prepare()),
        cas: Some(wr::CmpAndSwp::new(wr::Placeholder, cell, operands).prepare()),
        faa: Some(wr::FetchAndAdd::new(wr::Placeholder, cell, 1).prepare()),
    };
    let rows = vec![
        Row { twin: "send", ..living("prepared", prepared) },
        Row { twin: "write", ..living("prepared_write", prepared_write) },
        Row { twin: "inline_send", ..living("prepared_inline", prepared_inline) },
        Row { twin: "write", ..living("readme", readme) },
        living("set_len", set_len),
        Row { twin: "write", ..living("full", full) },
        living("pool", pool_row),
        living("from_arena", from_arena),
        living("faa", faa),
        primed("echo1", "echo", echo, ("prime1", prime1), 1),
        primed("echo1_outcome", "echo", echo_outcome, ("prime1", prime1), 1),
        primed("echo8", "echo", echo, ("prime8", prime8), 8),
        primed("shared16", "shared", shared, ("prime_shared16", prime_shared16), 16),
        primed(
            "shared16_outcome",
            "shared",
            shared_outcome,
            ("prime_shared16", prime_shared16),
            16,
        ),
    ];
    Family {
        name: "life",
        twins: ONE,
        signal_all: true,
        holds: false,
        world: leak(Life {
            qp,
            shallow,
            other,
            srq,
            cq,
            pool,
            arena: heap,
            len: 64,
            at,
            cell,
            slots,
            ready,
        }),
        restore: Some(|life| {
            // SAFETY: the world of this family.
            let Life { cq, slots, .. } = unsafe { &mut *life.cast::<Life>() };
            life::drain(cq, slots);
        }),
        twin,
        rows,
    }
}

pub(super) fn life_of_datagrams(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let (mut qp, first, ah) = datagram::<DefaultProfile>(&ground, &cq);
    let more = std::array::from_fn::<_, 64, _>(|i| match i {
        0 => (first, ah),
        _ => {
            let ah = ground.pd.create_ah(ground.vector()).expect("an address handle");
            let handle = ah.as_raw();
            let address_handle = qp.add_address_handle(ah).expect("a name for it");
            (wr::Destination { address_handle, ..first }, handle)
        }
    });
    let (world, twin) = ground.world(stub, qp, cq);
    twin.peers = more.map(|(_, ah)| ah.cast());
    let World { qp, cq, mut bufs, .. } = world;
    let slots = slots(&mut bufs);
    let prime = Some(("prime_datagrams", forms::prime_datagrams as Form));
    Family {
        name: "life",
        twins: ONE,
        signal_all: true,
        holds: false,
        world: leak(life::Datagrams {
            qp,
            cq,
            to: more.map(|(to, _)| to),
            ready: more.map(|(to, _)| wr::Send::new(wr::Placeholder).to(to).prepare()),
            slots,
        }),
        restore: Some(|life| {
            // SAFETY: the world of this family.
            let life = unsafe { &mut *life.cast::<life::Datagrams>() };
            life::drain(&mut life.cq, &mut life.slots);
        }),
        twin,
        rows: vec![Row { prime, ..living("datagrams", forms::datagrams) }],
    }
}

pub(super) fn life_of_rings(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let other = connected::<Chosen>(&ground, &cq, 64);
    let qp = connected::<Chosen>(&ground, &cq, DEPTH);
    let (world, twin) = ground.world(stub, qp, cq);
    twin.ends[1] = TwinEnd::of(&other);
    let World { qp, cq, at, mut bufs, .. } = world;
    let slots = slots(&mut bufs);
    Family {
        name: "life",
        twins: ONE,
        signal_all: false,
        holds: false,
        world: leak(life::Ring { qp, cq, at, slots, other, count: 4 }),
        restore: None,
        twin,
        rows: vec![living("chain4", forms::chain4)],
    }
}
