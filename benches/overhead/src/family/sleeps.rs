//! Waits, extended polling and extended posting.

use std::ffi::c_void;
use std::mem;

use proverbs::memory::ToWrite;
use proverbs::prelude::*;
use proverbs::raw::AsRaw;

use super::best::ONE;
use super::{Family, Row, leak, looped, row};
use crate::c::ibv_sge;
use crate::life::ROUNDS;
use crate::stub::Stub;
use crate::twin::{Twin, TwinEnd, TwinRemote};
use crate::wake::{Direct, Session, Sleeper, Timed};
use crate::world::*;

/// The forms of `wake`, as the stub calls them.
mod forms {
    use crate::form::form;
    use crate::life::ROUNDS;
    use crate::wake::{Session, Sleeper, Timed, code, timed, wake};

    form! { wake1(life: Sleeper) code(wake::<1>(life)) }
    form! { wake32(life: Sleeper) code(wake::<32>(life)) }
    form! { timed1(life: Timed) code((0..ROUNDS).try_for_each(|_| timed::<1>(life))) }
    form! { timed16(life: Timed) code((0..ROUNDS).try_for_each(|_| timed::<16>(life))) }
    form! { session1(life: Session) code((0..ROUNDS).try_for_each(|_| crate::wake::session1(life))) }
    form! { session4(life: Session) code((0..ROUNDS).try_for_each(|_| crate::wake::session4(life))) }
}

pub(super) fn wakes(stub: &Stub) -> Family {
    let ground = Ground::of_stub();
    let channel = ground.context.create_comp_channel().expect("a channel");
    let cq = ground.context.cq(4 * DEPTH).channel(&channel).create().expect("a completion queue");
    let qp = connected::<DefaultProfile>(&ground, &cq, 1024);
    let (world, twin) = ground.world(stub, qp, cq);
    let World { qp, cq, at, bufs, .. } = world;
    let bufs = bufs.map(|buf| Some(mem::ManuallyDrop::into_inner(buf)));
    let row = |name, rust| Row { items: ROUNDS, ..row(name, rust) };
    Family {
        name: "wake",
        twins: ONE,
        signal_all: true,
        holds: true,
        world: leak(Sleeper { channel, qp, cq, at, bufs }),
        restore: None,
        twin,
        rows: vec![row("wake1", forms::wake1), row("wake32", forms::wake32)],
    }
}

pub(super) fn timed() -> Family {
    let ground = Ground::of_stub();
    let cq =
        ground.context.cq(4 * DEPTH).fields().create().expect("a completion queue with a clock");
    let qp = connected::<DefaultProfile>(&ground, &cq, 1024);
    let (twin, at, bufs) = one_element_each(ground);
    twin.ends[0] = TwinEnd::of(&qp);
    (twin.qp, twin.timed) = (qp.as_raw().cast(), cq.as_raw().cast());
    let timed16 = Row { items: 16, ..row("timed16", forms::timed16) };
    let rows = vec![row("timed1", forms::timed1), timed16];
    let write = wr::RdmaWrite::new(wr::Placeholder, at).prepare();
    extended("extended", leak(Timed { qp, cq, write, bufs }), twin, rows)
}

pub(super) fn sessions() -> Family {
    let ground = Ground::of_stub();
    let cq = ground.cq();
    let qp = connected::<Direct>(&ground, &cq, 1024);
    let (twin, at, bufs) = one_element_each(ground);
    twin.ends[0] = TwinEnd::of(&qp);
    (twin.qp, twin.cq) = (qp.as_raw().cast(), cq.as_raw().cast());
    let rows = vec![
        row("session1", forms::session1),
        Row { items: 4, ..row("session4", forms::session4) },
    ];
    extended("session", leak(Session { qp, cq, at, bufs }), twin, rows)
}

/// C and Rust post WRITEs of one buffer each, to the same place. The ground is kept.
fn one_element_each<const N: usize>(
    ground: Ground,
) -> (&'static mut Twin, RemoteSpan<ToWrite>, [Option<Buf>; N]) {
    let bufs = ground.bufs();
    let none = ibv_sge { addr: 0, length: 0, lkey: 0 };
    let twin = Twin::new([none; crate::twin::MOST], ground.addresses(&bufs), DEPTH);
    let remote = ground.remote();
    twin.to = TwinRemote { addr: remote.addr(), rkey: remote.rkey(), len: remote.len() as u32 };
    let mut bufs = bufs.into_iter().map(|buf| Some(mem::ManuallyDrop::into_inner(buf)));
    let some = std::array::from_fn(|_| bufs.next().expect("32 buffers"));
    mem::forget((ground, bufs));
    (twin, remote.write(), some)
}

/// A family that does not wait. The rows are loops.
fn extended(
    name: &'static str,
    world: *mut c_void,
    twin: &'static mut Twin,
    rows: Vec<Row>,
) -> Family {
    let (signal_all, holds, restore) = (true, false, None);
    Family { name, twins: ONE, signal_all, holds, world, restore, twin, rows: looped(rows) }
}
