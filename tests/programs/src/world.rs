//! The environment of a generated program: a fabric, other threads, faults, and the properties to
//! check.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use proverbs::device::{CqId, LinkLayer, SrqId};
use proverbs::loopback;
use proverbs::loopback::{Capacity, Fabric, Grants, Personality, Script};
use proverbs::memory::Pages;
use proverbs::prelude::*;

use crate::choice::{choice, leaves_out, seed};
use crate::connect::{Connects, connect};
use crate::own::sevens;
use crate::profiles::{LoudArena, LoudPool};

/// A generated program.
pub struct Program {
    pub number: u64,
    /// The seed of its turns.
    pub seed: u64,
    pub run: fn(&World),
}

/// The depth of each queue pair. With the send of a drain, it is the room of a ring.
pub const DEPTH: Depth = Depth { send: 7, recv: 8 };
/// The buffers of each pool; a shared receive queue books as many.
pub const BUFFERS: usize = 12;

type Both<T, P> = (Option<QueuePair<T, Rts, P>>, Option<QueuePair<T, Rts, P>>);

/// The payload of planned panics.
struct Planned;

/// A panic that belongs to the program.
pub fn planned() {
    resume_unwind(Box::new(Planned));
}

pub(crate) fn is_planned(payload: &(dyn Any + std::marker::Send)) -> bool {
    payload.is::<Planned>()
}

#[derive(Default)]
pub struct World {
    pub fabric: Fabric,
    seed: u64,
    /// Only the program itself causes failures.
    calm: bool,
    /// A value was forgotten, so that buffers may not return.
    forgot: AtomicBool,
    /// There are sends without completions, or faults that keep entries.
    lenient: AtomicBool,
    /// A completion queue may break.
    broken: AtomicBool,
    /// There may be more bookings than are counted: hidden queue pairs live, or a shared receive
    /// queue has a pool of another size.
    hides: AtomicBool,
    /// A pool has other handles.
    clones: AtomicBool,
    /// A shared receive queue may have less room than when it was made.
    shrunk: AtomicBool,
    /// Memory that peers may only read, and that counts contexts.
    pub(crate) sevens: Arc<[u32]>,
    pub(crate) pools: Mutex<Vec<Pool>>,
    pub(crate) arenas: Mutex<Vec<Arena>>,
    pub(crate) loud_pools: Mutex<Vec<LoudPool>>,
    pub(crate) loud_arenas: Mutex<Vec<LoudArena<Pages>>>,
    /// Queue pairs that were connected to each other, and the shared receive queue of both.
    pub(crate) pairs: Mutex<Vec<(u32, u32, Option<SrqId>)>>,
    /// The completion queues where receives of a shared receive queue complete.
    pub(crate) brought: Mutex<Vec<(SrqId, CqId)>>,
    /// Memory that peers may have written: rkey, address, length.
    pub(crate) written: Mutex<Vec<(u32, u64, u64)>>,
    /// Lengths of READs.
    pub(crate) read: Mutex<Vec<u64>>,
    complaint: Mutex<Option<String>>,
}

/// The world of a turn, and its name. Short programs run on the worst devices and on those that
/// write the fewest fields.
fn world(seed: u64) -> (loopback::World, String) {
    let one_of = |site: u32, n: usize| choice(seed, u32::MAX - site, n);
    let personality = match (one_of(1, 10), cfg!(miri)) {
        (0, false) => Personality::Plain,
        (1..=2, false) => Personality::Rxe,
        (0..=4, _) => Personality::Mlx5,
        _ => Personality::worst(seed),
    };
    let world = match one_of(2, 10) {
        0..=1 => loopback::World::ipv6(),
        2 => loopback::World::infiniband(),
        _ => loopback::World::ipv4(),
    };
    let less =
        [Capacity::SendWr, Capacity::RecvWr, Capacity::Cqe, Capacity::SrqWr, Capacity::Inline];
    let grants = match one_of(3, 40) {
        0 => Grants::LessOf(less[one_of(4, less.len())]),
        1..=4 => Grants::More,
        _ => Grants::Exactly,
    };
    let name = format!(
        "{personality}, {}, {grants:?}",
        ["IPv4", "IPv6", "IB"][match one_of(2, 10) {
            0..=1 => 1,
            2 => 2,
            _ => 0,
        }]
    );
    (world.personality(personality).grants(grants), name)
}

/// Runs a turn of it. Returns why it failed, if it did.
pub fn run(program: &Program, turn: u64) -> Option<String> {
    let seed = seed(program.seed, turn);
    let (world, name) = world(seed);
    let calm = choice(seed, u32::MAX - 9, 2) == 0;
    let (fabric, sevens) = (Fabric::with(world), sevens());
    let world = World { fabric, seed, calm, sevens, ..World::default() };
    world.catch(|| (program.run)(&world));
    world.home("after everything was dropped");
    world.see_sevens();
    let why = lock(&world.complaint).take();
    why.map(|why| format!("{why} (on {name})"))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn message(payload: &(dyn Any + std::marker::Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or("a panic".to_owned())
}

impl World {
    /// Picks one of these, depending on the turn.
    pub fn pick<T, const N: usize>(&self, site: u32, all: [T; N]) -> T {
        let at = choice(self.seed, site, N);
        let picked = all.into_iter().nth(at);
        picked.expect("one of them")
    }

    /// Whether this turn makes the call.
    pub fn does(&self, site: u32) -> bool {
        !leaves_out(self.seed, site)
    }

    /// Records a violation; the first is reported.
    pub fn complain(&self, why: impl Into<String>) {
        lock(&self.complaint).get_or_insert(why.into());
    }

    /// Stops planned panics; others are violations.
    pub fn catch(&self, act: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(act)) {
            if !is_planned(&*payload) {
                self.complain(format!("it panicked: {}", message(&*payload)));
            }
        }
    }

    /// Runs both at once.
    pub fn both<A, B>(
        &self,
        one: impl FnOnce() -> A + std::marker::Send,
        two: impl FnOnce() -> B + std::marker::Send,
    ) -> (A, B)
    where
        A: std::marker::Send,
        B: std::marker::Send,
    {
        // They begin at the same time, as far as two processors allow.
        let here = AtomicU32::new(0);
        let begin = || {
            here.fetch_add(1, Ordering::Relaxed);
            while here.load(Ordering::Relaxed) != 2 {
                if cfg!(miri) { thread::yield_now() } else { std::hint::spin_loop() }
            }
        };
        thread::scope(|scope| {
            let one = scope.spawn(|| {
                begin();
                one()
            });
            let two = scope.spawn(|| {
                begin();
                two()
            });
            (ended(one.join()), ended(two.join()))
        })
    }

    /// Runs it on another thread.
    pub fn apart<A: std::marker::Send>(&self, act: impl FnOnce() -> A + std::marker::Send) -> A {
        thread::scope(|scope| ended(scope.spawn(act).join()))
    }

    /// A value is forgotten here.
    pub fn forgets(&self) {
        self.forgot.store(true, Ordering::Relaxed);
    }

    /// From here on there may be more bookings than are counted.
    pub fn hides(&self) {
        self.hides.store(true, Ordering::Relaxed);
    }

    /// A pool has other handles from here on.
    pub fn clones(&self) {
        self.clones.store(true, Ordering::Relaxed);
    }

    /// A shared receive queue may have less room from here on.
    pub fn shrinks(&self) {
        self.shrunk.store(true, Ordering::Relaxed);
    }

    /// From here on there may be outstanding sends without completions.
    pub fn lenient(&self) {
        self.lenient.store(true, Ordering::Relaxed);
    }

    /// A fault that keeps the bookkeeping exact.
    pub fn inject(&self, script: Script) {
        if !self.calm {
            self.fabric.inject(script);
        }
    }

    /// A fault that may keep entries, for a while or until the queue pair ends.
    pub fn inject_lenient(&self, script: Script) {
        if !self.calm {
            self.lenient();
            self.fabric.inject(script);
        }
    }

    /// A fault by which completion queues break.
    pub fn inject_broken(&self, script: Script) {
        if !self.calm {
            self.breaks();
            self.fabric.inject(script);
        }
    }

    /// The device breaks.
    pub fn break_device(&self, context: &Context) {
        if !self.calm {
            self.breaks();
            self.fabric.break_device(context);
        }
    }

    fn breaks(&self) {
        self.lenient();
        self.broken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_forgotten(&self) -> bool {
        self.forgot.load(Ordering::Relaxed)
    }

    pub(crate) fn has_clones(&self) -> bool {
        self.clones.load(Ordering::Relaxed)
    }

    pub(crate) fn hides_some(&self) -> bool {
        self.hides.load(Ordering::Relaxed)
    }

    pub(crate) fn is_shrunk(&self) -> bool {
        self.shrunk.load(Ordering::Relaxed)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Whether every entry and every credit can be accounted for.
    pub(crate) fn is_strict(&self) -> bool {
        !(self.has_forgotten() || self.is_broken() || self.lenient.load(Ordering::Relaxed))
    }

    /// Whether no other faults have happened or can happen.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm && self.is_strict()
    }

    pub fn pool(&self, pd: &ProtectionDomain, size: usize) -> Option<Pool> {
        let pool = pd.create_pool(BUFFERS, size).ok()?;
        lock(&self.pools).push(pool.clone());
        Some(pool)
    }

    pub fn arena(&self, pd: &ProtectionDomain, len: usize) -> Option<Arena> {
        let arena = pd.create_arena(len, BUFFERS).ok()?;
        lock(&self.arenas).push(arena.clone());
        Some(arena)
    }

    /// Receives of `srq` complete on `cq`.
    pub fn brings(&self, srq: SrqId, cq: CqId) {
        lock(&self.brought).push((srq, cq));
    }

    /// The address of the device itself.
    pub fn vector(&self, context: &Context) -> Option<AddressVector> {
        let port = context.query_port(1).ok()?;
        if port.link_layer == LinkLayer::InfiniBand {
            return Some(AddressVector::infiniband(1, port.lid));
        }
        Some(AddressVector::roce(1, context.query_gid(1, 1).ok()?, 1))
    }

    /// Connects two queue pairs through the context's device: to each other, if they are known to
    /// be on it.
    pub fn join<T: Connects, P: Profile>(
        &self,
        context: &Context,
        one: Option<QueuePair<T, Reset, P>>,
        two: Option<QueuePair<T, Reset, P>>,
        srq: Option<SrqId>,
        alike: bool,
    ) -> Both<T, P> {
        let (Some(one), Some(two), Some(to)) = (one, two, self.vector(context)) else {
            return (None, None);
        };
        let (one_num, two_num) = (one.qp_num(), two.qp_num());
        if alike {
            lock(&self.pairs).extend([(one_num, two_num, srq), (two_num, one_num, srq)]);
        }
        (connect(one, to, two_num), connect(two, to, one_num))
    }

    /// A client that posts and is dropped without a notice.
    pub fn client<T: Connects, P: Profile>(
        &self,
        qp: QueuePair<T, Reset, P>,
        post: impl FnOnce(&mut QueuePair<T, Init, P>),
    ) {
        if let Some(mut qp) = T::init(qp) {
            post(&mut qp);
        }
    }

    /// How often something is repeated; less under Miri.
    pub fn rounds(&self, natively: u32) -> u32 {
        if cfg!(miri) { natively.min(2) } else { natively }
    }

    /// Connects one to itself.
    pub fn alone<T: Connects, P: Profile>(
        &self,
        context: &Context,
        qp: QueuePair<T, Reset, P>,
    ) -> Option<QueuePair<T, Rts, P>> {
        let (to, number) = (self.vector(context)?, qp.qp_num());
        self.parts(number);
        connect(qp, to, number)
    }

    /// It is no longer connected to its peer.
    pub fn parts(&self, number: u32) {
        lock(&self.pairs).retain(|(one, two, _)| *one != number && *two != number);
    }
}

fn ended<T>(joined: thread::Result<T>) -> T {
    joined.unwrap_or_else(|payload| resume_unwind(payload))
}
