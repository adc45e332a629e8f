//! Families of rows. The rows of a family work on the same objects.

use std::ffi::c_void;
use std::mem;
use std::ptr;

use proverbs::memory::{Owned, Raw};
use proverbs::prelude::*;
use proverbs::qp::Max;
use proverbs::raw::AsRaw;
use proverbs::transport::Transport;

use crate::c::ibv_sge;
use crate::life::ROUNDS;
use crate::stub::{Form, Stub};
use crate::twin::Twin;
use crate::world::*;
use crate::{raw, safe, selective, typed};

/// `rows![module: a b c]`, with `raw` for rows that also exist in raw Rust.
macro_rules! rows {
    ($module:ident: $($name:ident)*) => { vec![$(row(stringify!($name), $module::$name)),*] };
    ($module:ident raw: $($name:ident)*) => {
        vec![$(Row { raw: Some(raw::$name), ..row(stringify!($name), $module::$name) }),*]
    };
}

mod best;
mod lives;
mod owned;
mod ready;
mod sleeps;

use lives::{life_of_datagrams, life_of_rings, lives};
use owned::{in_pieces, owned};
use ready::ready;
use sleeps::{sessions, timed, wakes};

/// A task that is compared in several forms.
pub struct Row {
    /// The name of the functions of all forms.
    pub name: &'static str,
    /// Typed or safe Rust.
    pub rust: Form,
    /// Raw Rust, which uses the environment of the C twins.
    pub raw: Option<Form>,
    /// The row that must be posted first.
    pub after: Option<&'static str>,
    /// A function that must post first, if that is not a row: its name in C, and the Rust form.
    pub prime: Option<(&'static str, Form)>,
    /// The number of calls that are counted together.
    pub calls: u32,
    /// The number of iterations of the form's loop. The result is shown per iteration.
    pub items: u32,
    /// The name of the C function, if it differs.
    pub twin: &'static str,
}

/// Rows on the same objects.
pub struct Family {
    pub name: &'static str,
    /// The prefixes of the function names of the C forms.
    pub twins: &'static [&'static str],
    pub signal_all: bool,
    /// Whether completions become visible only after their event was taken.
    pub holds: bool,
    pub world: *mut c_void,
    /// Takes back outstanding work requests between two calls, in Rust and in C. `None` if there
    /// are none, and both detect the free entries by themselves.
    pub restore: Option<unsafe fn(*mut c_void)>,
    pub twin: *mut Twin,
    pub rows: Vec<Row>,
}

impl Family {
    /// Other rows of the same objects, which are compared with the twins of `best.c`.
    fn beside(&self, name: &'static str, twins: &'static [&'static str], rows: Vec<Row>) -> Family {
        Family { name, twins, rows, ..*self }
    }

    /// The same for one queue pair.
    fn and_one(self, rows: Vec<Row>) -> [Family; 2] {
        let one = self.beside("one", best::ONE, rows);
        [self, one]
    }
}

const CALLS: u32 = 8;

fn row(name: &'static str, rust: Form) -> Row {
    let (raw, after, prime) = (None, None, None);
    Row { name, rust, raw, after, prime, calls: CALLS, items: 1, twin: name }
}

/// Rows whose forms iterate [`ROUNDS`] times.
fn looped(rows: Vec<Row>) -> Vec<Row> {
    rows.into_iter().map(|row| Row { items: row.items * ROUNDS, ..row }).collect()
}

fn leak<W>(world: W) -> *mut c_void {
    ptr::from_mut(Box::leak(Box::new(world))).cast()
}

/// Every family, on devices that use the data path of the stub.
pub fn all(stub: &Stub) -> Vec<Family> {
    let mut families = vec![
        caller(stub),
        caller_datagram(stub),
        caller_shared(stub),
        all_signaled("signal-all", stub, DEPTH, signal_all_rows()),
        datagram_signaled(stub),
        gather(stub),
        counted(stub),
        shared(stub),
        selective(stub),
        selective_datagram(stub),
        selective_gather(stub),
        owned(stub),
        in_pieces(stub),
        ready(stub),
        wakes(stub),
        timed(),
        sessions(),
        all_signaled("depth 16", stub, 16, vec![Row { calls: 1024, ..row("cycle", safe::cycle) }]),
        best::gathers(stub),
        best::places(stub),
        best::table(stub),
    ];
    families.extend(best::lives(lives(stub)));
    families.extend(best::datagrams(life_of_datagrams(stub)));
    families.extend(best::rings(life_of_rings(stub)));
    families
}

fn caller(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<Caller>(&ground, &cq, DEPTH);
    let (world, twin) = ground.world(stub, qp, cq);
    let mut rows = rows![typed raw: send write read cas faa inline_send inline_write
        send_imm write_imm sge2 sge4 mixed4 chain2 chain4 chain8 chain16 chain32
        list1of16 list4of16 list16of16 recv1 recv16];
    rows.push(Row { after: Some("write"), raw: Some(raw::poll1), ..row("poll1", typed::poll1) });
    rows.push(Row {
        after: Some("chain16"),
        raw: Some(raw::poll16),
        ..row("poll16", typed::poll16)
    });
    rows.push(Row { raw: Some(raw::cycle), ..row("cycle", typed::cycle) });
    rows.extend(rows![typed: kinds4of16 sges]);
    Family {
        name: "caller",
        twins: &["idiom", "fast"],
        signal_all: true,
        holds: false,
        world: leak(world),
        restore: None,
        twin,
        rows,
    }
}

fn caller_datagram(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let (qp, to, ah) = datagram::<Caller>(&ground, &cq);
    let (world, twin) = ground.world(stub, qp, cq);
    twin.to_ah.ah = ah.cast();
    Family {
        name: "caller",
        twins: &["idiom", "fast"],
        signal_all: true,
        holds: false,
        world: leak(with(world, to)),
        restore: None,
        twin,
        rows: rows![typed raw: ud_send],
    }
}

fn caller_shared(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let srq = ground.pd.create_raw_srq::<Rc, Max<1>>(16).expect("a shared queue");
    let qp = ground.pd.create_qp::<Rc, CallerFed>(&cq, &cq, Depth::on_srq(16, &srq));
    let qp = bring_up(&ground, qp.expect("a queue pair"));
    let handle = srq.as_raw().cast();
    let (world, twin) = ground.world(stub, qp, cq);
    twin.srq = handle;
    let (pieces, ids) = (world.pieces, world.ids);
    mem::forget(world);
    Family {
        name: "caller",
        twins: &["idiom", "fast"],
        signal_all: true,
        holds: false,
        world: leak(typed::Shared { srq, pieces, ids }),
        restore: None,
        twin,
        rows: rows![typed: srq1 srq16],
    }
}

fn with<T: Transport, P: Profile, X>(world: World<P, T>, extra: X) -> World<P, T, X> {
    let World {
        qp,
        cq,
        at,
        from,
        cell,
        imm_data,
        operands,
        add,
        counts,
        payload,
        pieces,
        ids,
        bufs,
        ..
    } = world;
    World {
        qp,
        cq,
        at,
        from,
        cell,
        imm_data,
        operands,
        add,
        counts,
        payload,
        pieces,
        ids,
        bufs,
        extra,
    }
}

const BOOKS: &[&str] = &["c0", "c1", "c2"];

fn signal_all_rows() -> Vec<Row> {
    let mut rows = rows![safe: send send_imm write write_imm read cas faa inline_send inline_write
        chain2 chain4 chain8 chain16 chain32 mixed4
        push1of16 push4of16 push16of16 iter1of16 iter4of16 iter16of16 recv1 recv16
        recv_push1of16 recv_push4of16 recv_push16of16 recv_iter1of16 recv_iter4of16 recv_iter16of16
        cycle cycle4];
    rows.push(Row { after: Some("write"), ..row("poll1", safe::poll1) });
    rows.push(Row { after: Some("chain16"), ..row("poll16", safe::poll16) });
    rows
}

fn all_signaled(name: &'static str, stub: &Stub, depth: u32, rows: Vec<Row>) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<DefaultProfile>(&ground, &cq, depth);
    let (world, twin) = ground.world(stub, qp, cq);
    let restore: unsafe fn(*mut c_void) = restore::<DefaultProfile, Rc, ()>;
    let restore = (depth == DEPTH).then_some(restore);
    Family {
        name,
        twins: BOOKS,
        signal_all: true,
        holds: false,
        world: leak(world),
        restore,
        twin,
        rows,
    }
}

fn datagram_signaled(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let (qp, to, ah) = datagram::<DefaultProfile>(&ground, &cq);
    let (world, twin) = ground.world(stub, qp, cq);
    twin.to_ah.ah = ah.cast();
    Family {
        name: "signal-all",
        twins: BOOKS,
        signal_all: true,
        holds: false,
        world: leak(with(world, to)),
        restore: Some(restore::<DefaultProfile, Ud, wr::Destination>),
        twin,
        rows: rows![safe: ud_send],
    }
}

fn gather(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<Gather>(&ground, &cq, DEPTH);
    let (world, twin) = ground.world(stub, qp, cq);
    Family {
        name: "signal-all",
        twins: BOOKS,
        signal_all: true,
        holds: false,
        world: leak(world),
        restore: Some(restore::<Gather, Rc, ()>),
        twin,
        rows: rows![safe: sge2 sge4],
    }
}

/// The C twins do not count.
fn counted(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.context.cq(4 * DEPTH).counted().create().expect("a completion queue");
    let qp = connected::<Counted>(&ground, &cq, DEPTH);
    let (world, twin) = ground.world(stub, qp, cq);
    let of = |twin, name, rust| Row { twin, ..row(name, rust) };
    let rows = vec![
        of("write", "counted_write", safe::counted::write),
        of("inline_write", "counted_inline_write", safe::counted::inline_write),
        of("chain16", "counted_chain16", safe::counted::chain16),
        of("recv1", "counted_recv1", safe::counted::recv1),
        of("cycle", "counted_cycle", safe::counted::cycle),
        Row {
            after: Some("counted_chain16"),
            ..of("poll16", "counted_poll16", safe::counted::poll16)
        },
    ];
    Family {
        name: "signal-all",
        twins: BOOKS,
        signal_all: true,
        holds: false,
        world: leak(world),
        restore: Some(restore::<Counted, Rc, ()>),
        twin,
        rows,
    }
}

profile! { Fed { receive: SharedRq } }
profile! { CallerFed { receive: SharedRq, entry: Raw } }

fn shared(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let srq = ground.pd.create_srq::<Rc, Buf, Max<1>, ()>(&ground.pool).expect("a shared queue");
    let qp = ground.pd.create_qp::<Rc, Fed>(&cq, &cq, Depth::on_srq(16, &srq));
    let qp = bring_up(&ground, qp.expect("a queue pair"));
    // SAFETY: the queue pair is kept.
    unsafe { stub.install(qp.as_raw()) };
    mem::forget(qp);
    let bufs = ground.bufs();
    let none = ibv_sge { addr: 0, length: 0, lkey: 0 };
    let twin = Twin::new([none; 32], ground.addresses(&bufs), DEPTH);
    twin.srq = srq.as_raw().cast();
    mem::forget(ground);
    Family {
        name: "signal-all",
        twins: BOOKS,
        signal_all: true,
        holds: false,
        world: leak(safe::Shared { srq, cq, bufs }),
        restore: Some(|world| {
            // SAFETY: the world of this family.
            let world = unsafe { &mut *world.cast::<safe::Shared>() };
            take_back(&mut world.cq);
        }),
        twin,
        rows: rows![safe: srq1 srq16],
    }
}

const RINGS: &[&str] = &["c0s", "c1s", "c2s"];

fn selective(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<Chosen>(&ground, &cq, DEPTH);
    let (world, twin) = ground.world(stub, qp, cq);
    let mut rows = rows![selective: send send_imm write write_imm read cas faa inline_send inline_write
        chain2 chain4 chain8 chain16 chain32 signaled16 mixed4
        push1of16 push4of16 push16of16 iter1of16 iter4of16 iter16of16 cycle cycle4];
    let after = |name, what, rust| Row { after: Some(what), ..row(name, rust) };
    rows.push(after("poll1", "write", selective::poll1));
    rows.push(after("poll16", "signaled16", selective::poll16));
    rows.push(after("release16", "chain16", selective::release16));
    ring(world, twin, rows)
}

fn selective_datagram(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let (qp, to, ah) = datagram::<Chosen>(&ground, &cq);
    let (world, twin) = ground.world(stub, qp, cq);
    twin.to_ah.ah = ah.cast();
    ring(with(world, to), twin, rows![selective: ud_send])
}

fn selective_gather(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<ChosenGather>(&ground, &cq, DEPTH);
    let (world, twin) = ground.world(stub, qp, cq);
    ring(world, twin, rows![selective: sge2 sge4])
}

fn ring<T: Transport, P, X>(world: World<P, T, X>, twin: *mut Twin, rows: Vec<Row>) -> Family
where
    P: Profile<Signaling = Selective>,
    P::Entry: Owned,
{
    Family {
        name: "selective",
        twins: RINGS,
        signal_all: false,
        holds: false,
        world: leak(world),
        restore: Some(release_all::<P, T, X>),
        twin,
        rows,
    }
}

/// # Safety
/// `world` is of these types.
unsafe fn release_all<P: Profile<Signaling = Selective>, T: Transport, X>(world: *mut c_void)
where
    P::Entry: Owned,
{
    // SAFETY: `leak` created it from a box of this type, and no form uses it at the same time.
    let world = unsafe { &mut *world.cast::<World<P, T, X>>() };
    while let Ok(Some(completion)) = world.cq.poll_one() {
        // The slots still contain the handles.
        if let Ok(done) = world.qp.complete(completion) {
            done.released.for_each(mem::forget);
        }
    }
    whole(&mut world.bufs);
}

/// Sets the lengths of buffers back after atomics, whose results have 8 bytes.
fn whole(bufs: &mut [mem::ManuallyDrop<Buf>]) {
    for buf in bufs {
        let capacity = buf.capacity();
        buf.set_len(capacity);
    }
}

/// # Safety
/// `world` is one of these types.
unsafe fn restore<P, T: Transport, X>(world: *mut c_void)
where
    P: Profile,
    P::Entry: Owned,
{
    // SAFETY: `leak` created it from a box of this type, and no form uses it at the same time.
    let world = unsafe { &mut *world.cast::<World<P, T, X>>() };
    take_back(&mut world.cq);
    whole(&mut world.bufs);
    // Reading the room updates the credits, so that this work is not part of a count by chance.
    world.qp.send_room();
    world.qp.recv_room();
}

fn take_back<E: Owned>(cq: &mut CompletionQueue<E>) {
    while let Ok(Some(completion)) = cq.poll_one() {
        // The slots still contain the handle.
        mem::forget(completion.into_entry());
    }
}
