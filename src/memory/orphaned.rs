//! Finds the buffers that destroyed or reset queues left orphaned, by their headers.
//!
//! # Why each is found and returned once
//!
//! A queue owns a handle while the header names the queue's counter. Posting writes the name before
//! the device owns the handle. Taking a handle out of a completion clears the name before that
//! thread releases its reference to the queue. The thread that releases the last one sees all of
//! these writes (`Pending`), and reclaims. So a handle that the queue still owns then has no other
//! owner: no completion can return it, and nothing is posted to a queue that is gone. (The header
//! of a handle that *another* queue owns may change at the same time. It is read atomically, and
//! that queue's counter has another address, because the counters of both exist.)
//!
//! Several threads may reclaim from the same queue if the program calls `reclaim` too. The lock
//! orders them: a handle is taken by clearing the name in its header, so the next thread does not
//! find it.
//!
//! The search only visits handles that the queue can own: buffers of its protection domain that
//! were ever taken from their pool. A pool hands out the buffer that was returned last, so buffers
//! that it never needed are not visited, however many there are. The search stops when it has found
//! as many handles as the queue's counters report outstanding. Pools from which few buffers were
//! taken come first, so if the queue uses a small pool, the buffers that others hold of a large one
//! are not visited. (The counters are exact except for work requests without a buffer, for which
//! the search does not stop early. Nor does it if safe code forgot a list of the queue. The buffers
//! of that list name the queue as well and are not counted. Their handles are lost, so they are
//! returned with the orphaned ones. The queue knows about such a list because it counts lists that
//! end.)
//!
//! Visited headers are alive: a pool registers its headers before it hands out a handle, and
//! removes them under the lock before it frees them.

// Model: src/memory/loom_tests/orphaned.rs

#![allow(unsafe_code)] // looks at headers that others own

use std::collections::BTreeMap;
use std::ptr;

use crate::counters::queue_counters::{CompletionCounter, QueueCounters, Quiet};
use crate::memory::any_handle::AnyHandle;
use crate::memory::chain::Chain;
use crate::memory::header::Header;
use crate::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering, global, lock};

/// The headers of a pool, or one chunk of the headers of a slab.
///
/// # Invariants
/// - `first` is the exposed address of the first of initialised headers, `stride` bytes apart. The
///   headers from `untaken` on were never handed out. They live as long as this value is in the
///   list.
struct Headers {
    first: usize,
    stride: usize,
    untaken: Arc<AtomicU32>,
}

/// The headers of the pools and slabs of a protection domain, keyed by the address of the first.
type Pools = BTreeMap<usize, Headers>;

/// The headers of every pool and slab that exists, keyed by the number of its protection domain, so
/// that a search skips the pools of other domains.
fn domains() -> MutexGuard<'static, BTreeMap<u32, Pools>> {
    global! {
        static ALL: Mutex<BTreeMap<u32, Pools>> = Mutex::new(BTreeMap::new());
    }
    lock(&ALL)
}

/// Handles of one pool that queues left orphaned. Dropping this returns all of them, even if a
/// user's Drop, which runs with the last handle of a pool, panics.
struct Orphaned {
    pool: usize,
    /// A single handle is a list of one.
    handles: Vec<Chain<AnyHandle>>,
}

/// Registers new headers of a protection domain. Each `T` begins with one. The headers from
/// `untaken` on were never taken. The registration, not the reference, determines how long they
/// must live.
///
/// # Safety
/// [`forget`] is called before the headers are freed.
pub(crate) unsafe fn note<T>(headers: &[T], untaken: Arc<AtomicU32>, pd: u32) {
    let first = headers.as_ptr().expose_provenance();
    let headers = Headers { first, stride: size_of::<T>(), untaken };
    domains().entry(pd).or_default().insert(first, headers);
}

/// Removes the headers of a protection domain before they are freed.
pub(crate) fn forget<T>(headers: &[T], pd: u32) {
    let mut domains = domains();
    if let Some(pools) = domains.get_mut(&pd) {
        pools.remove(&headers.as_ptr().addr());
        if pools.is_empty() {
            domains.remove(&pd);
        }
    }
}

impl Headers {
    /// The headers of buffers that were ever taken, which are the only ones that a queue can own,
    /// with their addresses.
    fn all(&self) -> impl Iterator<Item = (*mut Header, &Header)> {
        let &Headers { first, stride, .. } = self;
        (0..self.taken()).map(move |i| {
            let header = ptr::with_exposed_provenance_mut::<Header>(first + i * stride);
            // SAFETY: initialised and alive (invariant of `Headers`). Only atomic fields are
            // accessed through it, unless we turn out to own the handle.
            (header, unsafe { &*header })
        })
    }

    /// The number of buffers that were ever taken.
    fn taken(&self) -> usize {
        self.untaken.load(Ordering::Relaxed) as usize
    }

    /// Takes the handles that one of the queues in `quiet` owns, at most `most` of them.
    fn take(&self, quiet: &Quiet, most: usize) -> Option<Orphaned> {
        // One comparison skips most headers of other queues.
        let (lowest, highest) = quiet.span();
        let is_theirs = |name: *const CompletionCounter| {
            name.addr().wrapping_sub(lowest) < highest.wrapping_sub(lowest) && quiet.has(name)
        };
        let mut handles = Vec::new();
        for (address, header) in self.all() {
            if is_theirs(header.posted_to()) {
                header.forget_queue();
                // SAFETY: it was owned by a queue whose completions can no longer return it
                // (`Quiet`), so we own it, and the handles that it is linked to. The name in its
                // header was cleared under the lock, so no other thread has it.
                handles.push(unsafe { Chain::from_first(address) });
                if handles.len() == most {
                    break;
                }
            }
        }
        (!handles.is_empty()).then(|| Orphaned { pool: self.first, handles })
    }
}

/// The number of handles that the queue of these counters owns in the pool whose slots begin at
/// `slots`, in the same protection domain. Counting stops at `most`.
pub(crate) fn count_posted(slots: usize, counters: &QueueCounters, most: usize) -> usize {
    let domains = domains();
    let pool = domains.get(&counters.pd).and_then(|pools| pools.get(&slots));
    let headers = pool.into_iter().flat_map(Headers::all);
    headers.filter(|(_, header)| counters.has(header.posted_to())).take(most).count()
}

/// Returns all handles that the queues in `quiet` own, of every pool and region, and reports how
/// many there were.
pub(crate) fn reclaim_everything(quiet: &Quiet) -> Reclaimed {
    #[cfg(debug_assertions)]
    assert_unnamed(quiet);
    if quiet.is_empty() {
        return Reclaimed::default();
    }
    let orphaned = search(quiet, quiet.most());
    let pools = orphaned.iter().map(|of| (of.pool, of.handles.len())).collect();
    let lists = orphaned.iter().flat_map(|of| &of.handles);
    let handles = lists.filter(|list| list.headers().next().is_some_and(|it| !it.is_of_buf()));
    // (They are dropped at the end and outside the lock, so that a user's Drop, even if it panics,
    // does not leak anything.)
    Reclaimed { pools, handles: handles.count() }
}

/// Takes the handles that the queues in `quiet` own, until `most` are found.
fn search(quiet: &Quiet, mut most: usize) -> Vec<Orphaned> {
    // The lock keeps other threads from reclaiming, and keeps each listed header alive.
    let domains = domains();
    let (first, last) = quiet.domain().map_or((0, u32::MAX), |pd| (pd, pd));
    let theirs = domains.range(first..=last).filter(|(pd, _)| quiet.is_of(**pd));
    let pools = theirs.flat_map(|(_, pools)| pools.values());
    let mut pools: Vec<_> = pools.filter(|pool| pool.taken() != 0).collect();
    // The smallest pool comes first, so that the buffers of a large one are not visited for a queue
    // with buffers of a small one.
    pools.sort_unstable_by_key(|pool| pool.taken());
    let mut orphaned = Vec::new();
    for pool in pools {
        if most == 0 {
            break;
        }
        let found = pool.take(quiet, most);
        most -= found.as_ref().map_or(0, |found| found.handles.len());
        orphaned.extend(found);
    }
    orphaned
}

/// Asserts that counters outlive the headers that name them (see `memory::header`): if nothing is
/// orphaned, no header of their protection domain names them. (Checking all domains would take time
/// in proportion to the handles that programs forget.)
#[cfg(debug_assertions)]
fn assert_unnamed(quiet: &Quiet) {
    for counters in quiet.over() {
        let is_with =
            |pool: &Headers| pool.all().any(|(_, header)| counters.has(header.posted_to()));
        let is_named = domains().get(&counters.pd).is_some_and(|pools| pools.values().any(is_with));
        assert!(!is_named, "a buffer names a queue that has ended");
    }
}

/// The handles that were returned.
#[derive(Default)]
pub(crate) struct Reclaimed {
    /// The pools and slabs with returned handles, identified by their headers, and the number of
    /// handles.
    pools: Vec<(usize, usize)>,
    /// The number of shared and open handles, which do not belong to a pool.
    pub handles: usize,
}

impl Reclaimed {
    /// The number of buffers of the pool whose slots begin at `slots`.
    pub(crate) fn count_of(&self, slots: usize) -> usize {
        self.pools.iter().filter(|(pool, _)| *pool == slots).map(|(_, count)| count).sum()
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::memory::header::{Handle, Word};
    use crate::memory::list::BufList;
    use crate::prelude::RemoteRead;
    use crate::{
        counters::queue_counters::{QueueCounters, SEND},
        loopback,
    };

    /// Two threads may search for orphaned handles before either drops what it found. Each handle
    /// is found by one of them.
    #[test]
    fn a_orphaned_buffer_is_found_once() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let pool = pd.create_pool(2, 8).unwrap();
        let counters = QueueCounters::new(pd.id()).unwrap();
        let buf = pool.take().unwrap();
        // SAFETY: the counters exist.
        buf.header()
            .give(unsafe { QueueCounters::counter(std::sync::Arc::as_ptr(&counters), SEND) });
        std::mem::forget(buf);
        let mut quiet = Quiet::default();
        quiet.add(counters);
        let search = || domains()[&pd.id()][&pool.slots()].take(&quiet, usize::MAX);
        let found = search();
        assert_eq!(found.as_ref().map(|found| found.handles.len()), Some(1));
        assert!(search().is_none());
        drop(found);
        assert_eq!(pool.available(), 2);
    }

    /// The same for a handle that shares memory.
    #[test]
    fn a_orphaned_piece_is_found_once() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let counters = QueueCounters::new(pd.id()).unwrap();
        let region = pd.register::<RemoteRead>(64).unwrap();
        let piece = std::mem::ManuallyDrop::new(region.piece(0, 8).unwrap());
        // SAFETY: the counters exist.
        piece
            .header()
            .give(unsafe { QueueCounters::counter(std::sync::Arc::as_ptr(&counters), SEND) });
        let mut quiet = Quiet::default();
        quiet.add(counters);
        let found = search(&quiet, usize::MAX);
        assert_eq!((found.len(), search(&quiet, usize::MAX).len()), (1, 0));
        assert!(piece.header().posted_to().is_null());
        let region = region.destroy().unwrap_err().into_object();
        drop(found);
        region.destroy().unwrap();
    }

    /// Single buffers and lists of buffers are returned, even if their pool was dropped in between.
    #[test]
    fn what_is_found_goes_home_whatever_it_is() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        for (has_list, is_gone) in [(false, false), (false, true), (true, false), (true, true)] {
            let counted = std::sync::Arc::new(());
            let pool = pd.pool(8).contexts(|_| counted.clone()).create(5).unwrap();
            let counters = QueueCounters::new(pd.id()).unwrap();
            // SAFETY: the counters exist.
            let counter =
                unsafe { QueueCounters::counter(std::sync::Arc::as_ptr(&counters), SEND) };
            let one = || pool.take().unwrap();
            let mut lists = [BufList::from([one()]), BufList::from([one()]), BufList::new()];
            if has_list {
                lists[1].push_front(one());
            }
            lists[2].push_front(one());
            for list in lists {
                // SAFETY: none of them is empty.
                unsafe { list.first() }.give(counter);
                std::mem::forget(list);
            }
            counters.end([3, 0]);
            let (slots, mut quiet) = (pool.slots(), Quiet::default());
            quiet.add(counters);
            let pool = (!is_gone).then_some(pool);
            assert_eq!(std::sync::Arc::strong_count(&counted), 6);
            assert_eq!(reclaim_everything(&quiet).count_of(slots), 3);
            assert_eq!(pool.as_ref().map(|pool| pool.available()), (!is_gone).then_some(5));
            assert_eq!(std::sync::Arc::strong_count(&counted), if is_gone { 1 } else { 6 });
            // Each is taken once.
            let taken: Vec<_> = pool.iter().flat_map(|p| std::iter::from_fn(|| p.take())).collect();
            assert_eq!(taken.len(), if is_gone { 0 } else { 5 });
        }
    }

    /// Names next to the counters of a queue, and between two queues, do not belong to them.
    #[test]
    fn what_has_another_name_stays() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let pool = pd.create_pool(2, 8).unwrap();
        let all = [(); 3].map(|()| QueueCounters::new(pd.id()).unwrap());
        let at = |counters: &std::sync::Arc<QueueCounters>| std::sync::Arc::as_ptr(counters).addr();
        let mut by_address = all.each_ref();
        by_address.sort_by_key(|counters| at(counters));
        let [low, middle, high] = by_address;
        // SAFETY: the counters exist.
        let between = unsafe { QueueCounters::counter(std::sync::Arc::as_ptr(middle), SEND) };
        let name = std::ptr::without_provenance;
        let buf = pool.take().unwrap();
        let last = pool.take().unwrap();
        for (ends, others) in [
            (&[low][..], [name(at(low) - 1), name(at(low) + size_of::<QueueCounters>())]),
            (&[low, high][..], [between, name(at(high) + size_of::<QueueCounters>())]),
        ] {
            let mut quiet = Quiet::default();
            ends.iter().for_each(|&counters| quiet.add(counters.clone()));
            // SAFETY: the counters exist.
            last.header()
                .give(unsafe { QueueCounters::counter(std::sync::Arc::as_ptr(low), SEND) });
            let search = || domains()[&pd.id()][&pool.slots()].take(&quiet, usize::MAX);
            buf.header().give(others[0]);
            let found = search();
            assert_eq!(found.as_ref().map(|found| found.handles.len()), Some(1));
            std::mem::forget(found); // this test owns it
            for other in others {
                buf.header().give(other);
                assert!(search().is_none());
                assert_eq!(buf.header().posted_to(), other);
            }
            buf.header().forget_queue();
        }
    }

    /// A search ends with the last handle that can be orphaned, and starts with the pool from which
    /// the fewest buffers were taken.
    #[test]
    fn what_others_hold_of_a_large_pool_is_not_looked_at() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let mut pools = [(); 2].map(|()| pd.create_pool(100, 8).unwrap());
        // The pool from which few are taken does not have the lowest address.
        pools.sort_by_key(|pool| std::cmp::Reverse(pool.slots()));
        let held: Vec<_> = [(&pools[1], 100), (&pools[0], 3)]
            .into_iter()
            .flat_map(|(pool, count)| std::iter::from_fn(|| pool.take()).take(count))
            .collect();
        // The same with more pools in the domain.
        let mut others = Vec::new();
        for most in [1, 3, 4, 1, 3, 4] {
            let counters = QueueCounters::new(pd.id()).unwrap();
            // SAFETY: the counters exist.
            let counter =
                unsafe { QueueCounters::counter(std::sync::Arc::as_ptr(&counters), SEND) };
            // One buffer of the pool that is visited first, and two of the other.
            let with = [&held[0], &held[100], &held[101]];
            with.iter().for_each(|buf| buf.header().give(counter));
            counters.end([most, 0]);
            let mut quiet = Quiet::default();
            quiet.add(counters);
            assert_eq!(quiet.most(), most as usize);
            let returned = reclaim_everything(&quiet);
            let found = [&pools[0], &pools[1]].map(|pool| returned.count_of(pool.slots()));
            assert_eq!(found, [most.min(2) as usize, (most > 2) as usize], "{most}");
            // They were never lost: this test owns them.
            for (pool, found) in pools.iter().zip(found) {
                (0..found).for_each(|_| std::mem::forget(pool.take()));
            }
            with.iter().for_each(|buf| buf.header().forget_queue());
            if most == 4 {
                others.extend((0..4).map(|_| pd.create_pool(1, 8).unwrap()));
            }
        }
    }

    /// The end of a queue visits only buffers that were ever taken, however large their pool is.
    #[test]
    fn buffers_that_nobody_took_are_not_looked_at() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let pool = pd.create_pool(1000, 8).unwrap();
        let looked_at = || domains()[&pd.id()][&pool.slots()].all().count();
        assert_eq!(domains()[&pd.id()][&pool.slots()].taken(), 0);
        assert_eq!(looked_at(), 0);
        for _ in 0..2 {
            drop((pool.take(), pool.take(), pool.take()));
            assert_eq!(looked_at(), 3);
        }
        let all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((all.len(), looked_at()), (1000, 1000));
    }

    /// In an arena too, a search only reads headers that were handed out.
    #[test]
    fn a_search_stays_within_the_headers_of_an_arena() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let arena = pd.create_arena(4096, 3).unwrap();
        let looked_at = || domains()[&pd.id()].values().flat_map(Headers::all).count();
        assert_eq!(looked_at(), 0);
        let mut held = Vec::new();
        for taken in 1..=3 {
            held.push(arena.take(64).unwrap());
            assert_eq!(looked_at(), taken);
        }
        assert!(arena.take(64).is_none());
        assert_eq!(looked_at(), 3);
    }
}
