//! The loops of `best`, on one queue pair and on two.

use std::ffi::c_void;
use std::mem;

use proverbs::prelude::*;
use proverbs::raw::AsRaw;

use super::{Family, Row, leak, row};
use crate::best::{self, Answering, Gathers, Places, Table};
use crate::c::ibv_sge;
use crate::life::ROUNDS;
use crate::own::{Answers, LONG};
use crate::stub::{Form, Stub};
use crate::twin::{Twin, TwinBuf};
use crate::world::*;

pub(super) const ONE: &[&str] = &["c0_one", "c2_one", "c3_one"];
const MANY: &[&str] = &["c0_many", "c2_many", "c3_many"];

/// The forms of `best`, and of the loops of `life` that are the fastest form.
mod forms {
    use crate::best::{self, Gathers, Places, Table};
    use crate::form::form;
    use crate::life::{self, Datagrams, Life, Ring, code};

    form! { write(life: Life) code(best::write(life)) }
    form! { write_many(life: Life) code(best::write_many(life)) }
    form! { full(life: Life) code(best::full(life)) }
    form! { set_len(life: Life) code(best::set_len(life)) }
    form! { read(life: Life) code(best::read(life)) }
    form! { cas(life: Life) code(best::cas(life)) }
    form! { new_cas(life: Life) code(best::new_cas(life)) }
    form! { faa(life: Life) code(best::faa(life)) }
    form! { faa_many(life: Life) code(best::faa_many(life)) }
    form! { from_pool(life: Life) code(life::pool(life)) }
    form! { from_arena(life: Life) code(life::from_arena(life)) }
    form! { prime1(life: Life) code(life::prime::<1, false>(life)) }
    form! { prime8(life: Life) code(life::prime::<8, false>(life)) }
    form! { prime16(life: Life) code(life::prime::<16, false>(life)) }
    form! { prime_many(life: Life) code(best::prime_many(life)) }
    form! { prime_shared16(life: Life) code(life::prime::<16, true>(life)) }
    form! { echo_one(life: Life) code(best::echo_one(life)) }
    form! { echo(life: Life) code(best::echo::<false>(life)) }
    form! { echo_many(life: Life) code(best::echo::<true>(life)) }
    form! { two_queue_pairs(life: Life) code(life::two_queue_pairs(life)) }
    form! { rpc(life: Life) code(best::rpc(life)) }
    form! { shared(life: Life) code(life::shared(life)) }
    form! { stream(life: Life) code(best::stream(life)) }
    form! { prime_datagrams(life: Datagrams) code(life::prime_datagrams(life)) }
    form! { datagrams(life: Datagrams) code(best::datagrams(life)) }
    form! { chain4(life: Ring) code(best::chain4(life)) }
    form! { chain4_many(life: Ring) code(best::chain4_many(life)) }
    form! { list4(life: Ring) code(best::list(life)) }
    form! { gather2(it: Gathers) code(best::gather2(it)) }
    form! { gather4(it: Gathers) code(best::gather4(it)) }
    form! { piece_row(it: Places) code(best::piece(it)) }
    form! { prime_table(it: Table) code(best::prime_table(it)) }
    form! { table_row(it: Table) code(best::table(it)) }
}
use forms::*;

/// A row that iterates [`ROUNDS`] times.
fn one(name: &'static str, rust: Form) -> Row {
    Row { items: ROUNDS, ..row(name, rust) }
}

fn primed(
    name: &'static str,
    twin: &'static str,
    rust: Form,
    prime: (&'static str, Form),
    n: u32,
) -> Row {
    Row { twin, prime: Some(prime), items: n * ROUNDS, ..row(name, rust) }
}

pub(super) fn lives(old: Family) -> [Family; 4] {
    let single = vec![
        one("write", write),
        one("set_len", set_len),
        Row { twin: "write", ..one("full", full) },
        one("read", read),
        one("cas", cas),
        one("new_cas", new_cas),
        one("faa", faa),
        one("pool", from_pool),
        one("from_arena", from_arena),
        primed("echo1", "echo_one", echo_one, ("prime1", prime1), 1),
        primed("echo8", "echo", echo, ("prime8", prime8), 8),
        one("rpc", rpc),
        primed("shared16", "shared", shared, ("prime_shared16", prime_shared16), 16),
        primed("stream16", "stream", stream, ("prime16", prime16), 16),
    ];
    let many = vec![
        one("write", write_many),
        one("faa", faa_many),
        one("pool", from_pool),
        one("from_arena", from_arena),
        primed("echo8", "echo", echo_many, ("prime8", prime_many), 8),
        one("rpc", rpc),
    ];
    let in_turn = vec![Row { twin: "write", ..one("two_queue_pairs", two_queue_pairs) }];
    let in_turn = old.beside("life", MANY, in_turn);
    let (single, many) = (old.beside("one", ONE, single), old.beside("many", MANY, many));
    [old, in_turn, single, many]
}

pub(super) fn datagrams(old: Family) -> [Family; 2] {
    let prime = ("prime_datagrams", prime_datagrams as Form);
    old.and_one(vec![primed("datagrams", "datagrams", forms::datagrams, prime, 1)])
}

pub(super) fn rings(old: Family) -> [Family; 3] {
    let single = old.beside("one", ONE, vec![one("chain4", chain4), one("list4", list4)]);
    let many = old.beside("many", MANY, vec![one("chain4", chain4_many)]);
    [old, single, many]
}

fn family(world: *mut c_void, twin: *mut Twin, rows: Vec<Row>) -> Family {
    let (signal_all, holds, restore) = (true, false, None);
    Family { name: "one", twins: ONE, signal_all, holds, world, restore, twin, rows }
}

/// A region, for Rust and for C.
fn region(ground: &Ground) -> (MemoryRegion<RemoteAll>, *mut TwinBuf) {
    let region: MemoryRegion<RemoteAll> = ground.pd.register(LONG).expect("a region");
    let addr = region.remote().addr();
    // SAFETY: the region is live, and its key does not change.
    let lkey = unsafe { (*region.as_raw()).lkey };
    (region, TwinBuf::leaked(ibv_sge { addr, length: LONG as u32, lkey }))
}

pub(super) fn gathers(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<Gather>(&ground, &cq, 64);
    let (world, twin) = ground.world(stub, qp, cq);
    let World { qp, cq, at, bufs, .. } = world;
    let mut bufs = bufs.into_iter().map(|buf| Some(mem::ManuallyDrop::into_inner(buf)));
    let first = std::array::from_fn(|_| bufs.next().flatten());
    mem::forget(bufs);
    let rows = vec![one("gather2", gather2), one("gather4", gather4)];
    family(leak(Gathers { qp, cq, at, bufs: first }), twin, rows)
}

pub(super) fn places(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<Answers>(&ground, &cq, 64);
    let (region, of_c) = region(&ground);
    let piece = Some(region.piece(0, 64).expect("a piece"));
    let (world, twin) = ground.world(stub, qp, cq);
    twin.region = of_c;
    let write = wr::RdmaWrite::new(wr::Placeholder, world.at).prepare();
    let World { qp, cq, .. } = world;
    let world = Places { qp, cq, write, piece, from: 100, len: 64 };
    family(leak(world), twin, vec![one("piece", piece_row)])
}

pub(super) fn table(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<Answering>(&ground, &cq, 64);
    let (region, of_c) = region(&ground);
    let spare = (0..16).map(|_| region.piece(0, 64).expect("a piece")).collect();
    let (world, twin) = ground.world(stub, qp, cq);
    twin.region = of_c;
    let send = wr::Send::new(wr::Placeholder).prepare();
    let World { qp, cq, bufs, .. } = world;
    let mut bufs = (0..).zip(bufs).map(|(number, buf)| {
        let mut buf = mem::ManuallyDrop::into_inner(buf);
        buf[..4].copy_from_slice(&u32::to_ne_bytes(number));
        Some(AnyBuf::Buf(buf))
    });
    let slots = std::array::from_fn(|_| bufs.next().flatten());
    mem::forget(bufs);
    let world = Table { qp, cq, send, spare, slots };
    let rows = vec![primed("table", "table", table_row, ("prime8", prime_table), 8)];
    let restore: unsafe fn(*mut c_void) = |table| {
        // SAFETY: the world of this family.
        best::restore_table(unsafe { &mut *table.cast() });
    };
    Family { restore: Some(restore), ..family(leak(world), twin, rows) }
}
