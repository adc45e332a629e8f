//! Buffers that destroyed or reset queues left stranded, found by the marks in their headers.

#![allow(unsafe_code)] // looks at headers that others own

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use super::header::{Header, word};
use super::pool::Slot;
use super::{BufList, Lent, lent_with, with_lent};
use crate::in_flight::{Books, Quiet};

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

/// A handle that a queue left stranded, and how to send it home.
type Stranded = (usize, unsafe fn(usize));

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
            if let Some(queue) = header.posted_to().filter(|&queue| quiet.has(queue)) {
                header.forget_queue();
                quiet.took(queue);
                found.push((address | word::LIST, self.send_home));
            }
        }
    }
}

/// Counts the entries that are with each of these queues, whose completions can no longer come, and tells it.
pub(crate) fn count_stranded(quiet: &[&Books]) {
    if quiet.is_empty() {
        return;
    }
    let mut left: HashMap<u64, u32> = quiet.iter().map(|books| (books.id, 0)).collect();
    // Under both locks nothing is taken back meanwhile.
    let pools = pools();
    let headers = pools.values().flat_map(Headers::all);
    let posted = headers.filter_map(|(_, header)| header.posted_to());
    with_lent(|lent| {
        for queue in posted.chain(lent) {
            if let Some(count) = left.get_mut(&queue) {
                *count += 1;
            }
        }
        quiet.iter().for_each(|books| books.count_stranded(left[&books.id]));
    });
}

/// Sends the handles home. Gives their number.
fn send_home(stranded: Vec<Stranded>) -> usize {
    let count = stranded.len();
    for (word, send_home) in stranded {
        // SAFETY: the handle was with a queue that is gone, and no completion can bring it back any more
        // (`Quiet`), so it is ours; its mark was taken under the lock, so it is ours alone.
        unsafe { send_home(word) };
    }
    count
}

/// Takes back the buffers of one pool that are with one of the queues in `quiet`. Gives the number of entries.
pub(super) fn reclaim_pool<C: 'static>(slots: *mut Slot<C>, quiet: &Quiet) -> usize {
    let mut stranded = Vec::new();
    // Under the lock no other thread reclaims, and no header that is listed goes away.
    if let Some(pool) = pools().get(&slots.addr()) {
        pool.take(quiet, &mut stranded);
    }
    // Outside the lock: the last handle takes its pool with it.
    send_home(stranded)
}

/// Takes back everything that is with one of the queues in `quiet`, wherever it is from: nobody will ask.
pub(crate) fn reclaim_everything(quiet: &Quiet) {
    if quiet.0.is_empty() {
        return;
    }
    let mut stranded = Vec::new();
    for pool in pools().values() {
        pool.take(quiet, &mut stranded);
    }
    send_home(stranded);
    drop::<Vec<Lent>>(lent_with(quiet));
}
