//! The program's own memory, and contexts that hold other values.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use proverbs::memory::{Entry, MapOptions, Mapping, Memory, Pages, SharedMapping};
use proverbs::prelude::*;

use crate::profiles::Loud;
use crate::world::{World, is_planned};

pub type Octets = Vec<u8>;
pub type Words = Box<[u64]>;
pub type Leaked = &'static mut [u32];
/// A pool in the program's own memory.
pub type PoolIn<M> = Pool<(), M>;
pub type ArenaIn<M> = Arena<(), M>;
/// A region that must not be written.
pub type Table = MemoryRegion<RemoteRead, Arc<[u32]>>;

/// The content of a table.
const SEVENS: u32 = 0x0707_0707;

/// Memory as a program makes it: zeroed, and small.
pub trait Own: Memory + Sized {
    fn fresh(len: usize) -> Option<Self>;

    /// Restores its fresh content: all of it belongs to the program again.
    fn wipe(&mut self);

    /// Writes bytes as a program sends them: each is one more than the one before.
    fn number(&mut self, first: u8);
}

impl Own for Octets {
    fn fresh(len: usize) -> Option<Self> {
        Some(vec![0; len])
    }

    fn wipe(&mut self) {
        self.fill(0);
    }

    fn number(&mut self, first: u8) {
        number(self, first);
    }
}

impl Own for Words {
    fn fresh(len: usize) -> Option<Self> {
        Some(vec![0; len / 8].into())
    }

    fn wipe(&mut self) {
        self.fill(0);
    }

    fn number(&mut self, first: u8) {
        for (at, word) in self.iter_mut().enumerate() {
            *word = u64::from_ne_bytes(numbers(first, 8 * at));
        }
    }
}

impl Own for Leaked {
    fn fresh(len: usize) -> Option<Self> {
        Some(vec![0; len / 4].leak())
    }

    fn wipe(&mut self) {
        self.fill(0);
    }

    fn number(&mut self, first: u8) {
        for (at, word) in self.iter_mut().enumerate() {
            *word = u32::from_ne_bytes(numbers(first, 4 * at));
        }
    }
}

impl Own for Mapping {
    fn fresh(len: usize) -> Option<Self> {
        MapOptions::new().anonymous(len).ok()
    }

    fn wipe(&mut self) {
        self.fill(0);
    }

    fn number(&mut self, first: u8) {
        number(self, first);
    }
}

impl Own for Pages {
    /// They can only be taken out of regions.
    fn fresh(_: usize) -> Option<Self> {
        None
    }

    fn wipe(&mut self) {
        self.fill(0);
    }

    fn number(&mut self, first: u8) {
        number(self, first);
    }
}

impl Own for SharedMapping {
    /// Miri maps no files.
    fn fresh(len: usize) -> Option<Self> {
        if cfg!(miri) { None } else { MapOptions::new().memfd("program", len).ok().map(|it| it.0) }
    }

    fn wipe(&mut self) {
        for at in 0..self.len() {
            let _ = self.write_at(at, &[0]);
        }
    }

    fn number(&mut self, first: u8) {
        for at in 0..self.len() {
            let _ = self.write_at(at, &numbers::<1>(first, at));
        }
    }
}

fn number(bytes: &mut [u8], first: u8) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        [*byte] = numbers(first, at);
    }
}

/// The bytes from `at` on.
fn numbers<const N: usize>(first: u8, at: usize) -> [u8; N] {
    std::array::from_fn(|i| first.wrapping_add((at + i) as u8))
}

/// The type by which an implicit region's memory is posted.
pub type Sends = wr::Send;
pub type Writes = wr::RdmaWrite;
pub type SendsAndWrites = (wr::Send, wr::RdmaWrite);

/// The content of a context: anything.
pub type Held = Option<Box<dyn Any + std::marker::Send>>;
pub type NestPool = Pool<Held>;
pub type NestBuf = Buf<Held>;

profile! { pub Nests { entry: NestBuf } }

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept(Vec::new())) };
}

/// The objects that a thread keeps.
struct Kept(Vec<Box<dyn Any>>);

impl Drop for Kept {
    /// A panic out of here would end the process; a planned one is ignored.
    fn drop(&mut self) {
        for value in self.0.drain(..) {
            match catch_unwind(AssertUnwindSafe(|| drop(value))) {
                Err(payload) if !is_planned(&*payload) => resume_unwind(payload),
                _ => {}
            }
        }
    }
}

/// Drops the value when the thread ends, after all its other objects.
pub fn keep_until_exit<T: 'static>(value: T) {
    KEPT.with(|kept| kept.borrow_mut().0.push(Box::new(value)));
}

impl World {
    /// Destroys a pool as soon as all its buffers are free, and returns its memory.
    pub fn gives_back<M: Own>(&self, pool: PoolIn<M>) -> (Option<PoolIn<M>>, Option<M>) {
        let is_home = pool.available() == pool.count() && !self.has_clones();
        self.back(is_home.then_some("a pool with all its buffers free"), pool, Pool::destroy)
    }

    /// Like `gives_back`: an arena is complete when it is one block again. (The oracle keeps
    /// another handle to the result of `loud_arena`.)
    pub fn cleared<C: 'static, M: Own + 'static>(
        &self,
        arena: Arena<C, M>,
    ) -> (Option<Arena<C, M>>, Option<M>) {
        let is_kept = TypeId::of::<(C, M)>() == TypeId::of::<(Loud, Pages)>();
        let is_whole = arena.spare() == arena.count() && arena.longest() == arena.len();
        let is_home = is_whole && !is_kept;
        self.back(is_home.then_some("an arena with all its bytes free"), arena, Arena::destroy)
    }

    /// Destroys it, which must succeed if it is `home`: at once, or on the second attempt if a
    /// fault refuses the first.
    fn back<T, M: Own>(
        &self,
        home: Option<&str>,
        mut object: T,
        destroy: impl Fn(T) -> Result<M, Refused<T>>,
    ) -> (Option<T>, Option<M>) {
        for is_last in [self.is_calm(), true] {
            match destroy(object) {
                Ok(mut memory) => {
                    memory.wipe();
                    return (None, Some(memory));
                }
                Err(refused) => {
                    if let Some(what) = home.filter(|_| is_last && !self.is_broken()) {
                        self.complain(format!("{what}: {}", refused.error));
                    }
                    object = refused.into_object();
                }
            }
        }
        (Some(object), None)
    }

    /// Registers memory that peers may only read.
    pub fn table(&self, pd: &ProtectionDomain) -> Option<Table> {
        pd.region().create_in(self.sevens.clone()).ok()
    }

    /// Checks that the memory was not written, and that all its other owners are gone.
    pub(crate) fn see_sevens(&self) {
        if self.sevens.iter().any(|word| *word != SEVENS) {
            self.complain("read-only memory was written");
        }
        let left = Arc::strong_count(&self.sevens) - 1;
        if left != 0 && !self.has_forgotten() {
            self.complain(format!("{left} contexts and regions were never dropped"));
        }
    }

    /// A context that is counted.
    pub fn counted(&self) -> Arc<[u32]> {
        self.sevens.clone()
    }

    /// Changes the size; bookings stay.
    pub fn resized<E: Entry>(&self, cq: &mut CompletionQueue<E>, cqe: u32) {
        let (before, booked) = (cq.capacity(), cq.capacity() - cq.unbooked());
        let result = cq.resize(cqe);
        let (after, now) = (cq.capacity(), cq.capacity() - cq.unbooked());
        // Objects that another thread has destroyed by now have no bookings any more.
        let is_right = match &result {
            Ok(()) => after >= cqe,
            Err(error) => after == before || matches!(error.kind(), ErrorKind::Limit { .. }),
        };
        if !is_right || now > booked {
            self.complain(format!(
                "{cqe} entries were requested: {result:?}; of {before}, {booked} were booked, of \
                 {after}, {now} are"
            ));
        }
    }
}

/// The memory of a world's tables.
pub(crate) fn sevens() -> Arc<[u32]> {
    Arc::new([SEVENS; 16])
}

/// Methods with the names that posting macros call, for every type. They take `&self`, so method
/// lookup finds them before inherent ones that take `&mut self`, unless the macros are written with
/// care.
#[allow(dead_code)]
pub trait Hijacks {
    fn vouch(&self) {
        panic!("a macro called a method of the program")
    }

    fn may_be_forgotten(&self) {
        panic!("a macro called a method of the program")
    }

    fn is_finished(&self) {
        panic!("a macro called a method of the program")
    }

    fn slot<A>(&self, _: A) -> [u64; 18] {
        panic!("a macro called a method of the program")
    }

    fn emit<A, B, C, D, E>(&self, _: A, _: B, _: C, _: D, _: E, _: *mut u8) -> Stolen {
        Stolen { entry: None, known: () }
    }

    fn post<A, B, C>(&self, _: A, _: B, _: C) {}
}

impl<T> Hijacks for T {}

/// The result of a stolen work request: an entry for a request that was never written.
pub struct Stolen {
    pub entry: Option<Buf>,
    pub known: (),
}

impl Stolen {
    pub fn opcode(&self) {}
}
