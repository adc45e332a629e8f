//! The headers of handles that share memory, those in use and those to be used again.
//!
//! They are made some at a time and never freed, so there are as many as once were in use together.
//! A thread has a list of spare ones to itself, from which it takes and to which it returns,
//! without a lock; only when that is empty or long, and when the thread ends, a batch moves between
//! it and the list of all threads.
//!
//! # Why a header has one owner
//!
//! A spare header is in one list: that of a thread, which no other touches, or that of all, under
//! the lock. Who takes it out has it alone, but for the search of `lent`, which touches its atomic
//! alone. What a thread left in it is seen by the next one, as the lock orders them.

#![allow(unsafe_code)] // hands out headers by their addresses

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::memory::lent::LentHeader;
use crate::sync::{Mutex, MutexGuard, global, lock};

/// Headers that are made at once, and that move between lists at once.
const BATCH: usize = 64;
/// Most spare headers of a thread.
pub(super) const MOST: usize = 2 * BATCH;
/// What the list of a thread counts besides while nobody gives it to all when the thread ends.
const UNKEPT: usize = usize::MAX / 2;

/// # Invariants
/// Its headers are spare, and in no other list.
struct List {
    first: Cell<*mut LentHeader>,
    count: Cell<usize>,
}

/// All headers.
struct All {
    /// The first header of each batch that was made.
    made: Vec<NonNull<LentHeader>>,
    spare: List,
}

// SAFETY: the lists own their headers, and headers hold nothing while they are spare.
unsafe impl Send for All {}

impl List {
    const fn new() -> Self {
        List { first: Cell::new(ptr::null_mut()), count: Cell::new(0) }
    }

    #[inline(always)]
    fn pop(&self) -> Option<NonNull<LentHeader>> {
        let at = NonNull::new(self.first.get())?;
        // SAFETY: a header of the list is spare, and headers are never freed.
        self.first.set(unsafe { (*at.as_ptr()).next.get() });
        self.count.set(self.count.get() - 1);
        Some(at)
    }

    /// That many headers, if there are so many: the first, from which `next` leads to the others,
    /// and at last to null.
    #[inline(always)]
    fn pop_chain(&self, n: usize) -> Option<NonNull<LentHeader>> {
        let first = NonNull::new(self.first.get())?;
        let mut last = first;
        for _ in 1..n {
            // SAFETY: a header of the list is spare, and headers are never freed.
            last = NonNull::new(unsafe { (*last.as_ptr()).next.get() })?;
        }
        // SAFETY: the last of them is a header of the list too, and headers are never freed.
        self.first.set(unsafe { (*last.as_ptr()).next.replace(ptr::null_mut()) });
        self.count.set(self.count.get() - n);
        Some(first)
    }

    /// Returns how many there are now.
    ///
    /// # Safety
    /// The header is spare, and in no list.
    #[inline(always)]
    unsafe fn push(&self, at: NonNull<LentHeader>) -> usize {
        // SAFETY: nobody else has the header (this function's contract).
        unsafe { (*at.as_ptr()).next.set(self.first.get()) };
        self.first.set(at.as_ptr());
        let count = self.count.get() + 1;
        self.count.set(count);
        count
    }

    /// Moves at most `n` headers to the other list.
    fn give(&self, n: usize, to: &List) {
        for at in std::iter::from_fn(|| self.pop()).take(n) {
            // SAFETY: just popped.
            unsafe { to.push(at) };
        }
    }
}

/// Gives the list of a thread to all when the thread ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        OWN.with(|own| {
            own.give(usize::MAX, &all().spare);
            own.count.set(UNKEPT);
        });
    }
}

thread_local! {
    /// (Without a Drop of its own, since that would be asked about on each access.)
    static OWN: List = const { List { first: Cell::new(ptr::null_mut()), count: Cell::new(UNKEPT) } };
    static END: End = const { End };
}

/// Sees to it that the list of the thread goes to all when the thread ends. False if it is too late
/// for that.
fn keep(own: &List) -> bool {
    let is_kept = END.try_with(|_| ()).is_ok();
    if is_kept && own.count.get() >= UNKEPT {
        own.count.set(own.count.get() - UNKEPT);
    }
    is_kept
}

fn all() -> MutexGuard<'static, All> {
    global! {
        static ALL: Mutex<All> = Mutex::new(All { made: Vec::new(), spare: List::new() });
    }
    lock(&ALL)
}

/// A spare header, which is the caller's.
#[inline(always)]
pub(super) fn take() -> NonNull<LentHeader> {
    OWN.with(List::pop).unwrap_or_else(|| more())
}

/// That many spare headers, one at least, which are the caller's: the first, from which `next`
/// leads to the others, and at last to null.
#[inline(always)]
pub(super) fn take_chain(n: usize) -> NonNull<LentHeader> {
    /// (One after the other, of which some may bring a batch.)
    #[cold]
    #[inline(never)]
    fn slowly(n: usize) -> NonNull<LentHeader> {
        let mut first = take();
        // SAFETY: each is the caller's.
        unsafe { (*first.as_ptr()).next.set(ptr::null_mut()) };
        for _ in 1..n {
            let one = take();
            // SAFETY: just taken, so it is in no list, and nobody else touches its link.
            unsafe { (*one.as_ptr()).next.set(first.as_ptr()) };
            first = one;
        }
        first
    }
    OWN.with(|own| own.pop_chain(n)).unwrap_or_else(|| slowly(n))
}

/// Takes a header back. If the answer is true, the caller calls `fewer`.
///
/// # Safety
/// The caller has the header alone, and gives it up. It names no queue.
#[inline(always)]
#[must_use]
pub(super) unsafe fn put(at: NonNull<LentHeader>) -> bool {
    // SAFETY: the caller gives it up.
    OWN.with(|own| unsafe { own.push(at) }) > MOST
}

/// Brings the thread a batch of headers. Returns one more.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
extern "C" fn more() -> NonNull<LentHeader> {
    OWN.with(|own| {
        let is_kept = keep(own);
        let mut all = all();
        if all.spare.count.get() == 0 {
            all.make();
        }
        let one = all.spare.pop().expect("there are some, or they were just made");
        if is_kept {
            all.spare.give(BATCH - 1, own);
        }
        one
    })
}

/// Gives a batch of the thread's headers to all, if there are too many, or all at its end.
#[cold]
#[inline(never)]
pub(super) extern "C" fn fewer() {
    OWN.with(|own| {
        let is_kept = keep(own);
        if !is_kept || own.count.get() > MOST {
            own.give(BATCH, &all().spare);
        }
    })
}

impl All {
    /// Makes some headers. Without memory for them it ends the process, as `Vec` does.
    fn make(&mut self) {
        let batch: Vec<_> = (0..BATCH).map(|_| LentHeader::spare()).collect();
        let first = NonNull::from(batch.leak()).cast::<LentHeader>();
        self.made.push(first);
        for i in 0..BATCH {
            // SAFETY: a header of the batch, which is spare, known to nobody and in no list.
            unsafe {
                LentHeader::place(first.add(i));
                self.spare.push(first.add(i));
            }
        }
    }
}

/// Shows every header, spare or not. Only what is atomic in them may be touched.
pub(super) fn each(mut see: impl FnMut(NonNull<LentHeader>)) {
    for first in &all().made {
        for i in 0..BATCH {
            // SAFETY: a header of the batch.
            see(unsafe { first.add(i) });
        }
    }
}

/// The number of spare headers of this thread.
#[cfg(test)]
pub(super) fn own() -> usize {
    OWN.with(|own| own.count.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// As a handle that is dropped.
    ///
    /// # Safety
    /// As for `put`.
    unsafe fn back(at: NonNull<LentHeader>) {
        // SAFETY: the caller has the header alone, and gives it up; it names no queue.
        if unsafe { put(at) } {
            fewer();
        }
    }

    /// No header is handed out twice, whichever threads take and return them.
    #[test]
    fn a_header_has_one_owner() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    let taken: Vec<_> = (0..3 * MOST).map(|_| take()).collect();
                    taken.iter().map(|at| at.as_ptr() as usize).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut taken: Vec<usize> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        let count = taken.len();
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), count);
        // All are returned by one thread.
        let returned: BTreeSet<usize> = taken.iter().copied().collect();
        for at in taken {
            let at = std::ptr::with_exposed_provenance_mut::<LentHeader>(at);
            // SAFETY: taken above, and returned once.
            unsafe { back(NonNull::new(at).unwrap()) };
        }
        OWN.with(|own| assert!(own.count.get() <= MOST));
        let mut shown = 0;
        each(|_| shown += 1);
        assert_eq!(shown % BATCH, 0, "those of each batch, and none behind it");
        let mut known = 0;
        each(|at| known += returned.contains(&(at.as_ptr() as usize)) as usize);
        assert_eq!(known, count);
    }

    /// A chain has as many headers as were asked for, whether the thread has so many or not, and
    /// nobody else has one of them.
    #[test]
    fn a_chain_is_as_long_as_was_asked_for() {
        let work = || {
            for n in [1, 2, 3, BATCH - 1, BATCH, 2, MOST + 1, 3 * MOST, 1] {
                let before = OWN.with(|own| own.count.get());
                let mut chain = BTreeSet::new();
                let mut at = take_chain(n).as_ptr();
                while let Some(one) = NonNull::new(at) {
                    // SAFETY: a header of the chain, which is this test's.
                    at = unsafe { (*one.as_ptr()).next.get() };
                    assert!(chain.insert(one));
                }
                assert_eq!(chain.len(), n);
                let left = OWN.with(|own| own.count.get());
                assert!(before >= UNKEPT || before < n || left == before - n, "{before} {left}");
                let others = OWN.with(|own| {
                    let all: Vec<_> = std::iter::from_fn(|| own.pop()).collect();
                    // SAFETY: each was just taken out.
                    all.iter().for_each(|&at| unsafe { _ = own.push(at) });
                    all
                });
                assert_eq!(others.len(), left);
                assert!(others.iter().all(|other| !chain.contains(other)));
                // SAFETY: each was taken, and is returned once.
                chain.into_iter().for_each(|at| unsafe { back(at) });
                assert!(OWN.with(|own| own.count.get()) <= MOST);
            }
        };
        std::thread::spawn(work).join().unwrap();
    }

    /// What a thread keeps to its very end goes to all, even if its list of spare headers is gone
    /// by then.
    #[test]
    fn headers_come_back_from_the_end_of_a_thread() {
        struct Kept(std::cell::RefCell<Vec<NonNull<LentHeader>>>);
        impl Drop for Kept {
            fn drop(&mut self) {
                for at in self.0.take() {
                    // SAFETY: taken below, and returned once.
                    unsafe { back(at) };
                }
            }
        }
        thread_local! {
            static FIRST: Kept = const { Kept(std::cell::RefCell::new(Vec::new())) };
            static LAST: Kept = const { Kept(std::cell::RefCell::new(Vec::new())) };
        }
        let made = || all().made.len();
        let before = made();
        for _ in 0..if cfg!(miri) { 3 } else { 200 } {
            let thread = std::thread::spawn(|| {
                // One of them is dropped before the list of spare headers, and one behind it.
                FIRST.with(|kept| kept.0.borrow_mut().reserve(BATCH));
                let taken: Vec<_> = (0..2 * BATCH).map(|_| take()).collect();
                FIRST.with(|kept| kept.0.borrow_mut().extend(&taken[..BATCH]));
                LAST.with(|kept| kept.0.borrow_mut().extend(&taken[BATCH..]));
            });
            thread.join().unwrap();
        }
        // (Other tests make some meanwhile.)
        assert!(made() - before < 80, "{} batches", made() - before);
    }

    /// A thread that takes a header after its list is gone takes that one alone.
    #[test]
    fn a_thread_that_ended_keeps_no_headers() {
        use std::sync::mpsc::{Sender, channel};

        struct Late(Sender<usize>);
        impl Drop for Late {
            fn drop(&mut self) {
                let one = take();
                let kept = OWN.with(|own| std::iter::from_fn(|| own.pop()).count());
                self.0.send(kept).unwrap();
                // SAFETY: just taken, and returned once.
                unsafe { back(one) };
            }
        }
        thread_local! {
            static LATE: std::cell::OnceCell<Late> = const { std::cell::OnceCell::new() };
        }
        let (tell, kept) = channel();
        let thread = std::thread::spawn(move || {
            LATE.with(|late| assert!(late.set(Late(tell)).is_ok()));
            // The list has its end from here on, which comes before that of `LATE`.
            let one = take();
            // SAFETY: just taken, and returned once.
            unsafe { back(one) };
        });
        thread.join().unwrap();
        assert_eq!(kept.recv().unwrap(), 0);
    }

    /// Headers that a thread returns after its list is gone are those of all, and are used again.
    #[test]
    fn headers_outlive_the_list_of_their_thread() {
        use std::cell::RefCell;
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

        const EACH: usize = 2 * BATCH;
        const THREADS: usize = if cfg!(miri) { 8 } else { 100 };
        static LATE: AtomicUsize = AtomicUsize::new(0);

        /// Headers that are returned when the thread ends.
        struct Late(RefCell<Vec<NonNull<LentHeader>>>);
        impl Drop for Late {
            fn drop(&mut self) {
                for at in self.0.borrow_mut().drain(..) {
                    let is_gone = END.try_with(|_| ()).is_err();
                    LATE.fetch_add(is_gone as usize, Relaxed);
                    // SAFETY: taken below, and returned once.
                    unsafe { back(at) };
                }
            }
        }
        thread_local! {
            static HELD: Late = const { Late(RefCell::new(Vec::new())) };
        }
        let made = || all().made.len();
        let before = made();
        for _ in 0..THREADS {
            let work = || {
                // Of thread-locals the one that is touched first goes last.
                HELD.with(|held| held.0.borrow_mut().reserve(EACH));
                let taken: Vec<_> = (0..EACH).map(|_| take()).collect();
                HELD.with(|held| held.0.borrow_mut().extend(taken));
            };
            std::thread::spawn(work).join().unwrap();
        }
        assert_eq!(LATE.load(Relaxed), THREADS * EACH, "the list went first");
        // (Other tests make some meanwhile.)
        assert!(made() - before < THREADS, "{} batches", made() - before);
    }

    /// Threads that come and go use the headers of those before, and none is made for them.
    #[test]
    fn headers_are_used_again() {
        let made = || all().made.len();
        let before = made();
        for _ in 0..100 {
            // SAFETY: taken here, and returned once.
            std::thread::spawn(|| unsafe { back(take()) }).join().unwrap();
        }
        // (Other tests make some meanwhile.)
        assert!(made() - before < 80, "{} batches", made() - before);
    }
}
