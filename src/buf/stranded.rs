//! Buffers that destroyed or reset queues left stranded, found by the marks in their headers.

#![allow(unsafe_code)] // looks at headers that others own

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::header::{Header, word};
use super::pool::Slot;
use super::{BufList, Lent, lent_with};
use crate::in_flight::Quiet;

/// The headers of a pool, and how to send one home.
///
/// # Invariants
/// `first` is the exposed address of the first of `count` initialised headers, `stride` bytes apart, which
/// live as long as the value is in the list.
struct Headers {
    first: usize,
    stride: usize,
    count: usize,
    send_home: unsafe fn(usize),
}

/// The headers of every pool that exists, by the address of the first.
fn pools() -> MutexGuard<'static, BTreeMap<usize, Headers>> {
    static ALL: Mutex<BTreeMap<usize, Headers>> = Mutex::new(BTreeMap::new());
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A handle that a queue left stranded. Dropped, it goes home, and so do the others of its list if code of the user's
/// panics then, which runs with the last handle of a pool.
///
/// # Invariants
/// `send_home` is that of its pool. The handle was with a queue of which no completion can bring it back any more
/// (`Quiet`), so it is ours; its mark was taken under the lock, so it is ours alone.
struct Stranded {
    pool: usize,
    word: usize,
    send_home: unsafe fn(usize),
}

impl Drop for Stranded {
    fn drop(&mut self) {
        // SAFETY: by the invariant the handle is ours, and given up here.
        unsafe { (self.send_home)(self.word) };
    }
}

/// Enters the slots of a new pool. (The entry, not the pointer, says how long they live.)
///
/// # Safety
/// They are initialised, and [`forget_pool`] is called before they go.
pub(super) unsafe fn note_pool<C: 'static>(slots: *mut Slot<C>, count: usize) {
    /// # Safety
    /// `word` is that of a handle of a pool of `C`, which the caller gives up.
    unsafe fn send_home<C: 'static>(word: usize) {
        // SAFETY: the caller's contract; a single buffer is a list of one.
        drop(unsafe { BufList::<C>::from_word(word) });
    }
    let first = slots.expose_provenance();
    let headers = Headers { first, stride: size_of::<Slot<C>>(), count, send_home: send_home::<C> };
    pools().insert(first, headers);
}

/// The pool's slots go.
pub(super) fn forget_pool<C>(slots: *mut Slot<C>) {
    pools().remove(&slots.addr());
}

impl Headers {
    fn all(&self) -> impl Iterator<Item = (usize, &Header)> {
        (0..self.count).map(|i| {
            let address = self.first + i * self.stride;
            let header = std::ptr::with_exposed_provenance::<Header>(address);
            // SAFETY: initialised and alive (the invariant); through it only atomics are touched here.
            (address, unsafe { &*header })
        })
    }

    /// Takes the handles that are with one of the queues in `quiet`.
    fn take(&self, quiet: &Quiet, found: &mut Vec<Stranded>) {
        for (address, header) in self.all() {
            if header.posted_to().is_some_and(|queue| quiet.has(queue)) {
                header.forget_queue();
                let word = address | word::LIST;
                found.push(Stranded { pool: self.first, word, send_home: self.send_home });
            }
        }
    }
}

/// How many handles of the pool whose slots begin at this address are with a queue; it stops at `most`.
pub(crate) fn count_posted(slots: usize, queue: u64, most: usize) -> usize {
    let pools = pools();
    let headers = pools.get(&slots).into_iter().flat_map(Headers::all);
    headers.filter(|(_, header)| header.posted_to() == Some(queue)).take(most).count()
}

/// Takes back everything that is with one of the queues in `quiet`, wherever it is from. Gives what came home.
pub(crate) fn reclaim_everything(quiet: &Quiet) -> Home {
    if quiet.0.is_empty() {
        return Home::default();
    }
    let mut stranded = Vec::new();
    // Under the lock no other thread reclaims, and no header that is listed goes away.
    for pool in pools().values() {
        pool.take(quiet, &mut stranded);
    }
    let lent: Vec<Lent> = lent_with(quiet);
    let home =
        Home { pools: stranded.iter().map(|handle| handle.pool).collect(), lent: lent.len() };
    // Only now, and outside the locks: what code of a user's does in a Drop, or its panic, loses nothing.
    drop(stranded);
    drop(lent);
    home
}

/// What came home.
#[derive(Default)]
pub(crate) struct Home {
    /// Of which pool each entry of buffers is.
    pools: Vec<usize>,
    /// Boxed handles.
    pub lent: usize,
}

impl Home {
    /// The number of entries of the pool with these slots.
    pub(super) fn count_of<C>(&self, slots: *mut Slot<C>) -> usize {
        self.pools.iter().filter(|&&pool| pool == slots.addr()).count()
    }
}
