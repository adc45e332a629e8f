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
//! # When a search runs
//!
//! A search also visits buffers that the program or other queues hold, so queues share its cost. A
//! queue waits for a search if its entries are buffers of a pool or an arena
//! ([`Entry::MAY_WAIT`](crate::memory::Entry)). The search for all queues that wait runs when it is
//! cheap in proportion to the handles that they are owed ([`Domain::is_cheap`]), and at the latest
//! when the program needs the buffers: before a take returns nothing, before free buffers are
//! counted, in `reclaim`, and when a pool is dropped. A queue that waits keeps its counters, so no
//! header names counters that are gone. Queues with other entries are searched for at once: handles
//! that share memory keep it registered, and the drop of a context may be the program's code, which
//! another thread could then run.
//!
//! # What a search visits
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

use std::array;
use std::collections::BTreeMap;
use std::mem;
use std::ptr;
use std::sync::LazyLock;

use crate::counters::queue_counters::{CompletionCounter, QueueCounters, Quiet};
use crate::memory::any_handle::AnyHandle;
use crate::memory::chain::Chain;
use crate::memory::header::Header;
use crate::sync::{Arc, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, global, lock};

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
    is_given_up: bool,
}

/// The headers of a protection domain, and the queues that wait for a search.
#[derive(Default)]
struct Domain {
    /// The headers of each pool and slab, keyed by the address of the first.
    pools: BTreeMap<usize, Headers>,
    /// The number of these pools that the program has dropped while their buffers were in use.
    given_up: usize,
    waiting: Vec<std::sync::Arc<QueueCounters>>,
    /// The maximum number of handles that the waiting queues own.
    owed: usize,
    /// The number of headers that the last search visited.
    visited: usize,
}

/// A search does not wait if it visits at most this many headers.
const AT_ONCE: usize = 128;
/// The number of headers that a search may visit for each handle that is owed.
const SHARE: usize = 8;
/// A pool counts as this many headers: one that was used, and any other.
const USED_POOL: usize = 16;
const POOL: usize = 4;

/// The protection domains with headers, by their number.
type Domains = BTreeMap<u32, Domain>;

/// Locks the domains of one of several groups. Searches in different groups do not wait for each
/// other.
fn group(pd: u32) -> MutexGuard<'static, Domains> {
    global! {
        static ALL: LazyLock<[Mutex<Domains>; GROUPS as usize]> =
            LazyLock::new(|| array::from_fn(|_| Mutex::new(BTreeMap::new())));
    }
    lock(&ALL[(pd % GROUPS) as usize])
}

const GROUPS: u32 = 16;

/// The number of queues that wait, so that a take that finds nothing does not lock if none does.
fn waiting() -> &'static AtomicU64 {
    global! {
        static ALL: AtomicU64 = AtomicU64::new(0);
    }
    &ALL
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
    let headers = Headers { first, stride: size_of::<T>(), untaken, is_given_up: false };
    group(pd).entry(pd).or_default().pools.insert(first, headers);
}

/// Removes the headers of a protection domain before they are freed.
pub(crate) fn forget<T>(headers: &[T], pd: u32) {
    let mut group = group(pd);
    let Some(domain) = group.get_mut(&pd) else { return };
    let gone = domain.pools.remove(&headers.as_ptr().addr());
    domain.given_up -= usize::from(gone.is_some_and(|gone| gone.is_given_up));
    let _ended = if domain.pools.is_empty() { domain.take_waiting() } else { Quiet::default() };
    if domain.pools.is_empty() {
        group.remove(&pd);
    }
    drop(group);
}

/// Records that the program has dropped a pool of which buffers are in use, and returns the buffers
/// that waiting queues own. Then its memory is freed with its last buffer, and no later queue of
/// the domain waits.
pub(crate) fn give_up<T>(headers: &[T], pd: u32) {
    if let Some(domain) = group(pd).get_mut(&pd) {
        if let Some(pool) = domain.pools.get_mut(&headers.as_ptr().addr()) {
            pool.is_given_up = true;
            domain.given_up += 1;
        }
    }
    let _ = search_waiting(headers, pd);
}

impl Domain {
    /// Whether a search takes little time in proportion to the handles that are owed. (It is
    /// estimated by what the last search visited. If the estimate is too low, the search costs no
    /// more than the takes and pools that were added since.)
    fn is_cheap(&self) -> bool {
        let visits = self.visited.max(POOL * self.pools.len());
        self.given_up != 0 || visits <= AT_ONCE + SHARE * self.owed
    }

    /// The queues that wait, which then wait no longer.
    fn take_waiting(&mut self) -> Quiet {
        waiting().fetch_sub(self.waiting.len() as u64, Ordering::Relaxed);
        self.owed = 0;
        mem::take(&mut self.waiting).into()
    }

    /// Takes the handles that the waiting queues own. The pool whose slots begin at `first` is
    /// visited first, if there is one. Also returns the queues: the caller drops both without the
    /// lock, because the last owner of a shared budget drops the program's wakers.
    fn search_waiting(&mut self, first: usize) -> (Vec<Orphaned>, Quiet) {
        let quiet = self.take_waiting();
        let mut most = quiet.most();
        let mut orphaned = match self.pools.get(&first) {
            Some(pool) if most != 0 => Vec::from_iter(pool.take(&quiet, &mut most)),
            _ => Vec::new(),
        };
        orphaned.extend(self.take(&quiet, &mut most));
        (orphaned, quiet)
    }

    /// Takes the handles that the queues in `quiet` own, until `most` are found.
    fn take(&mut self, quiet: &Quiet, most: &mut usize) -> Vec<Orphaned> {
        let mut orphaned = Vec::new();
        if *most == 0 {
            return orphaned;
        }
        let mut pools: Vec<_> = self.pools.values().filter(|pool| pool.taken() != 0).collect();
        // The smallest pool comes first, so that the buffers of a large one are not visited for a
        // queue with buffers of a small one.
        pools.sort_unstable_by_key(|pool| pool.taken());
        self.visited = 0;
        for pool in pools {
            if *most == 0 {
                break;
            }
            self.visited += USED_POOL + pool.taken();
            orphaned.extend(pool.take(quiet, most));
        }
        orphaned
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

    /// Takes the handles that one of the queues in `quiet` owns, at most `most` of them, at least
    /// one. Subtracts their number.
    fn take(&self, quiet: &Quiet, most: &mut usize) -> Option<Orphaned> {
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
                *most -= 1;
                if *most == 0 {
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
    let group = group(counters.pd);
    let pool = group.get(&counters.pd).and_then(|domain| domain.pools.get(&slots));
    let headers = pool.into_iter().flat_map(Headers::all);
    headers.filter(|(_, header)| counters.has(header.posted_to())).take(most).count()
}

/// Returns all handles that the queues in `quiet` own, of every pool and region, or lets the queues
/// wait for a search. Reports how many handles were returned.
pub(crate) fn reclaim_everything(quiet: Quiet) -> Reclaimed {
    #[cfg(debug_assertions)]
    assert_unnamed(&quiet);
    match quiet.domain() {
        None if quiet.is_empty() => Reclaimed::default(),
        Some(pd) if quiet.may_wait() => add_waiting(pd, quiet),
        _ => Reclaimed::of(search(&quiet)),
    }
}

/// Lets queues of a protection domain wait. Searches for all that wait if that is cheap now.
fn add_waiting(pd: u32, quiet: Quiet) -> Reclaimed {
    let mut group = group(pd);
    // Without headers, nothing is orphaned.
    let Some(domain) = group.get_mut(&pd) else { return Reclaimed::default() };
    domain.owed += quiet.most();
    let before = domain.waiting.len();
    domain.waiting.extend(quiet.into_queues());
    waiting().fetch_add((domain.waiting.len() - before) as u64, Ordering::Relaxed);
    let is_cheap = domain.is_cheap();
    let (orphaned, _ended) = if is_cheap { domain.search_waiting(0) } else { Default::default() };
    drop(group);
    Reclaimed::of(orphaned)
}

/// Returns all handles that waiting queues of a protection domain own, and reports how many. The
/// pool with these headers probably has them. No lock of a pool may be held.
pub(crate) fn search_waiting<T>(headers: &[T], pd: u32) -> Reclaimed {
    if waiting().load(Ordering::Relaxed) == 0 {
        return Reclaimed::default();
    }
    let first = headers.as_ptr().addr();
    let found = group(pd).get_mut(&pd).map(|domain| domain.search_waiting(first));
    let (orphaned, _ended) = found.unwrap_or_default();
    Reclaimed::of(orphaned)
}

/// Makes queues of a protection domain wait.
#[cfg(all(test, loom))]
pub(crate) fn make_dear(pd: u32) {
    group(pd).entry(pd).or_default().visited = usize::MAX;
}

/// Takes the handles that the queues in `quiet` own.
fn search(quiet: &Quiet) -> Vec<Orphaned> {
    let (mut most, mut orphaned) = (quiet.most(), Vec::new());
    let groups = quiet.domain().map_or(0..=GROUPS - 1, |pd| pd..=pd);
    for number in groups {
        // The lock keeps other threads from reclaiming, and keeps each listed header alive.
        for (pd, domain) in group(number).iter_mut() {
            if quiet.is_of(*pd) {
                orphaned.extend(domain.take(quiet, &mut most));
            }
        }
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
        let group = group(counters.pd);
        let domain = group.get(&counters.pd);
        let is_named = domain.is_some_and(|domain| domain.pools.values().any(is_with));
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
    /// Returns the handles. No lock is held: a user's Drop may run, and nothing leaks if it panics.
    fn of(orphaned: Vec<Orphaned>) -> Self {
        let pools = orphaned.iter().map(|of| (of.pool, of.handles.len())).collect();
        let lists = orphaned.iter().flat_map(|of| &of.handles);
        let handles = lists.filter(|list| list.headers().next().is_some_and(|it| !it.is_of_buf()));
        Reclaimed { pools, handles: handles.count() }
    }

    /// Whether nothing was returned.
    pub(crate) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

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
    use crate::prelude::{Buf, Pool, ProtectionDomain, RemoteRead};
    use crate::{
        counters::queue_counters::{QueueCounters, SEND},
        loopback,
    };

    /// The handles of a pool that the queues own.
    fn take(pool: &Pool, quiet: &Quiet) -> Option<Orphaned> {
        let pd = pool.shared().region.pd();
        let mut most = usize::MAX;
        group(pd)[&pd].pools[&pool.slots()].take(quiet, &mut most)
    }

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
        let search = || take(&pool, &quiet);
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
        counters.end([1, 0]);
        let mut quiet = Quiet::default();
        quiet.add(counters);
        let found = search(&quiet);
        assert_eq!((found.len(), search(&quiet).len()), (1, 0));
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
            assert_eq!(reclaim_everything(quiet).count_of(slots), 3);
            assert_eq!(pool.as_ref().map(|pool| pool.available()), (!is_gone).then_some(5));
            assert_eq!(std::sync::Arc::strong_count(&counted), if is_gone { 1 } else { 6 });
            // Each is taken once.
            let taken: Vec<_> = pool.iter().flat_map(|p| std::iter::from_fn(|| p.take())).collect();
            assert_eq!(taken.len(), if is_gone { 0 } else { 5 });
        }
    }

    /// Addresses next to the counters of a queue, and between the counters of two queues, do not
    /// belong to these queues.
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
            let search = || take(&pool, &quiet);
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
            let returned = reclaim_everything(quiet);
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
        let looked_at = || group(pd.id())[&pd.id()].pools[&pool.slots()].all().count();
        assert_eq!(group(pd.id())[&pd.id()].pools[&pool.slots()].taken(), 0);
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
        let looked_at = || group(pd.id())[&pd.id()].pools.values().flat_map(Headers::all).count();
        assert_eq!(looked_at(), 0);
        let mut held = Vec::new();
        for taken in 1..=3 {
            held.push(arena.take(64).unwrap());
            assert_eq!(looked_at(), taken);
        }
        assert!(arena.take(64).is_none());
        assert_eq!(looked_at(), 3);
    }

    /// A domain in which a search is dear: buffers of a large pool are held.
    struct Dear {
        held: Vec<Buf>,
        large: Pool,
        small: Pool,
        pd: ProtectionDomain,
    }

    /// More headers than a search at once may visit.
    const LARGE: usize = 2 * AT_ONCE;

    fn dear() -> Dear {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let large = pd.create_pool(LARGE, 8).unwrap();
        let small = pd.create_pool(4, 8).unwrap();
        let held = std::iter::from_fn(|| large.take()).collect();
        let mut dear = Dear { held, large, small, pd };
        // The first search learns what a search costs.
        let buf = dear.held.pop().unwrap();
        assert!(!is_waiting(&dear.end(vec![buf])));
        dear.held.extend(dear.large.take());
        dear
    }

    impl Dear {
        /// Ends a queue that owns these buffers.
        fn end(&self, bufs: Vec<Buf>) -> Arc<QueueCounters> {
            let counters = QueueCounters::new(self.pd.id()).unwrap();
            counters.set_may_wait();
            counters.end([bufs.len() as u32, 0]);
            for buf in bufs {
                // SAFETY: the counters exist.
                buf.header().give(unsafe { QueueCounters::counter(Arc::as_ptr(&counters), SEND) });
                mem::forget(buf);
            }
            let mut quiet = Quiet::default();
            quiet.add(counters.clone());
            let _ = reclaim_everything(quiet);
            counters
        }

        /// Ends a queue that owns buffers of the small pool, and waits.
        fn waits(&self, count: usize) -> Arc<QueueCounters> {
            let bufs = (0..count).map_while(|_| self.small.take()).collect();
            let counters = self.end(bufs);
            assert!(is_waiting(&counters));
            counters
        }
    }

    fn is_waiting(counters: &Arc<QueueCounters>) -> bool {
        Arc::strong_count(counters) > 1
    }

    /// Queues wait until a share of the headers is owed. One search then finds all their buffers.
    #[test]
    fn queues_wait_until_enough_is_owed() {
        let mut dear = dear();
        let mut ended = Vec::new();
        while ended.first().is_none_or(is_waiting) {
            let bufs = dear.held.split_off(dear.held.len() - 4);
            ended.push(dear.end(bufs));
        }
        let visits = USED_POOL + LARGE;
        assert_eq!(ended.len(), (visits - AT_ONCE).div_ceil(4 * SHARE));
        assert!(!ended.iter().any(is_waiting));
        assert_eq!(dear.large.shared().free_slots(), 4 * ended.len());
    }

    /// Each call that needs the buffers of a pool finds those that waiting queues own.
    #[test]
    fn what_needs_the_buffers_searches() {
        let dear = dear();
        let counters = dear.waits(3);
        assert_eq!(dear.small.available(), 4);
        assert!(!is_waiting(&counters));
        let counters = dear.waits(4);
        let taken: Vec<_> = std::iter::from_fn(|| dear.small.take()).collect();
        assert_eq!(taken.len(), 4);
        assert!(!is_waiting(&counters));
        drop(taken);
        let _counters = dear.waits(2);
        assert_eq!((dear.small.shared().reclaim(), dear.small.shared().reclaim()), (2, 0));
        let counters = dear.waits(2);
        let Dear { small, large, held, pd } = dear;
        let memory = Arc::downgrade(&counters);
        drop((small, counters));
        assert!(memory.upgrade().is_none());
        assert_eq!(group(pd.id())[&pd.id()].pools.len(), 1);
        drop((large, held));
    }

    /// The same for an arena, whose takes and splits need bytes.
    #[test]
    fn what_needs_the_bytes_of_an_arena_searches() {
        let dear = dear();
        let arena = dear.pd.create_arena(256, 3).unwrap();
        let with = |len| dear.end(vec![arena.take(len).unwrap()]);
        let counters = with(256);
        assert!(is_waiting(&counters));
        let mut first = arena.take(128).unwrap();
        assert!(!is_waiting(&counters));
        let (_one, other) = (with(64), with(64));
        // There is no slot for the other part.
        assert!(first.split_off(64).is_ok());
        assert!(!is_waiting(&other));
        drop(first);
        let _counters = with(128);
        assert_eq!(arena.available(), 256);
        let _counters = with(128);
        assert_eq!((arena.shared().reclaim(), arena.shared().reclaim()), (1, 0));
    }

    /// If the program has dropped a pool, a queue does not wait: its buffers keep the memory.
    #[test]
    fn nothing_waits_for_a_pool_that_was_given_up() {
        let dear = dear();
        let bufs = vec![dear.small.take().unwrap()];
        let Dear { small, large, held, pd } = dear;
        drop(small);
        assert_eq!(group(pd.id())[&pd.id()].given_up, 1);
        let dear = Dear { small: large.clone(), large, held, pd };
        let counters = dear.end(bufs);
        assert!(!is_waiting(&counters));
        let domain = &group(dear.pd.id())[&dear.pd.id()];
        assert_eq!((domain.pools.len(), domain.given_up), (1, 0));
    }

    /// Queues with other entries, or without a known number of them, do not wait.
    #[test]
    fn some_queues_do_not_wait() {
        let dear = dear();
        for is_list in [false, true] {
            let counters = QueueCounters::new(dear.pd.id()).unwrap();
            if is_list {
                counters.set_may_wait();
                counters.note_lists();
            }
            counters.end([1, 0]);
            let buf = dear.small.take().unwrap();
            // SAFETY: the counters exist.
            buf.header().give(unsafe { QueueCounters::counter(Arc::as_ptr(&counters), SEND) });
            mem::forget(buf);
            let mut quiet = Quiet::default();
            quiet.add(counters);
            assert_eq!(reclaim_everything(quiet).count_of(dear.small.slots()), 1);
        }
    }

    /// Two threads search for queues that wait. Each buffer returns once.
    #[test]
    fn two_threads_search_for_queues_that_wait() {
        const TURNS: usize = if cfg!(miri) { 5 } else { 1000 };
        let dear = dear();
        for _ in 0..TURNS {
            let counters = dear.waits(3);
            let begin = std::sync::Barrier::new(2);
            let take = || {
                begin.wait();
                std::iter::from_fn(|| dear.small.take()).collect::<Vec<_>>()
            };
            let taken = std::thread::scope(|scope| {
                [scope.spawn(take), scope.spawn(take)].map(|thread| thread.join().unwrap())
            });
            assert!(!is_waiting(&counters));
            assert!(taken.iter().flatten().count() <= 4);
            drop(taken);
            assert_eq!(dear.small.available(), 4);
        }
    }
}
