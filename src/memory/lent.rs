//! Handles that share memory: each has a header of its own, and keeps the memory's home alive.
//!
//! # Why each is freed once, and found while it exists
//!
//! Headers are used again and never freed (`spares`), so each may be looked at at any time. A
//! handle has one owner, wherever it travels as a word, until it is dropped. Its Drop clears the
//! queue's name in the header and makes the header spare. The search for stranded handles touches
//! that name alone, which is atomic: who renews a spare header writes all of it but the name. A
//! handle that the search finds with a queue whose completions can no longer come has no other
//! owner (`stranded`), so the search may drop it. Searches are under a lock, and clear the name, so
//! no other finds it.

#![allow(unsafe_code)] // owns headers that travel as words

use std::any::TypeId;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use crate::cold::drop_each;
use crate::counters::books::{Counter, Quiet};
use crate::memory::header::Header;
use crate::memory::spares;

/// A header that is not a pool's, with what keeps the memory alive.
#[repr(C)]
pub(crate) struct LentHeader {
    header: Header,
    /// The protection domain's number: the header's `home` points to this field.
    pd: u32,
    /// The user's word.
    id: Cell<u64>,
    home: MaybeUninit<Home>,
    /// Of a piece of a region: the most bytes that it had at a time. Its mark is that of so many.
    longest: Cell<usize>,
    /// In a spare header: the next of a list; so too where a handle is of `Several`.
    pub(super) next: Cell<*mut LentHeader>,
}

impl LentHeader {
    /// A spare header, to be placed where it stays.
    pub(super) fn spare() -> Self {
        LentHeader {
            header: Header::new(ptr::null_mut(), 0, 0, ptr::null(), 0),
            pd: 0,
            id: Cell::new(0),
            home: MaybeUninit::uninit(),
            longest: Cell::new(0),
            next: Cell::new(ptr::null_mut()),
        }
    }

    /// A spare header has come to where it stays, for good.
    ///
    /// # Safety
    /// It is a spare header, and nobody else knows it.
    pub(super) unsafe fn place(at: NonNull<Self>) {
        at.as_ptr().expose_provenance();
        // SAFETY: the header is the caller's alone.
        unsafe { (*at.as_ptr()).header.home = (&raw const (*at.as_ptr()).pd).cast() };
    }
}

/// What keeps the memory of handles alive: a counted reference.
///
/// # Invariants
/// The value is one of the references to `at`, whose kind is `kind`. What it refers to may be used
/// and let go by any thread.
pub(crate) struct Home {
    at: *const (),
    kind: &'static Kind,
}

/// How references of a kind are counted.
pub(crate) struct Kind {
    /// Counts one more.
    pub share: unsafe fn(*const ()),
    /// Counts one less; the last one's memory goes home.
    pub release: unsafe fn(*const ()),
    /// How many there are.
    pub count: unsafe fn(*const ()) -> usize,
    /// The type of the buffer's context, if it is a buffer.
    pub context: Option<fn() -> TypeId>,
}

impl Home {
    /// # Safety
    /// The caller gives up a reference to `at`, which is of this kind, and may be used by any
    /// thread.
    pub unsafe fn new(at: *const (), kind: &'static Kind) -> Self {
        // INVARIANT: asked of the caller.
        Home { at, kind }
    }

    pub fn at(&self) -> *const () {
        self.at
    }

    pub fn kind(&self) -> &'static Kind {
        self.kind
    }
}

impl Clone for Home {
    #[inline(always)]
    fn clone(&self) -> Self {
        // SAFETY: one of the references to it exists (invariant).
        unsafe { (self.kind.share)(self.at) };
        // INVARIANT: the reference just counted.
        Home { at: self.at, kind: self.kind }
    }
}

impl Drop for Home {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the reference is this value's (invariant), which goes.
        unsafe { (self.kind.release)(self.at) };
    }
}

/// What a handle is made of, but for its home.
pub(crate) struct Loan {
    /// `len` bytes, registered with `lkey`.
    pub addr: *mut u8,
    pub len: u32,
    pub lkey: u32,
    /// The protection domain's number.
    pub pd: u32,
    /// The mark of a buffer of this domain and length that is of no pool.
    pub mark: u64,
}

/// A handle with a header of its own, which says where the memory is, keeps it alive and keeps it
/// registered.
///
/// # Invariants
/// `at` is a header made by `lend`, with a home, and this is the only handle to it.
#[repr(transparent)]
pub(crate) struct Lent {
    at: NonNull<LentHeader>,
}

// SAFETY: the handle owns the header, and the home may be used by any thread.
unsafe impl Send for Lent {}
// SAFETY: through a shared `Lent` only fields of the header are read that change through an
// exclusive one alone.
unsafe impl Sync for Lent {}

/// A handle to memory that `home` keeps alive and registered. (The home is made where nothing can
/// unwind any more.)
#[inline]
pub(crate) fn lend(home: impl FnOnce() -> Home, loan: &Loan) -> Lent {
    // SAFETY: the header was spare, and is the caller's.
    unsafe { filled(spares::take(), home, loan) }
}

/// Handles to the same memory, `n` of them, at least one, with a home each.
#[inline(always)]
pub(crate) fn lend_several(n: usize, home: impl Fn() -> Home, loan: &Loan) -> Several {
    debug_assert!(n != 0);
    let first = spares::take_chain(n).as_ptr();
    let mut at = first;
    for _ in 0..n {
        // SAFETY: there are so many, not null, which were spare, and are ours. The handle is kept
        // by what is returned.
        unsafe {
            std::mem::forget(filled(NonNull::new_unchecked(at), &home, loan));
            at = (*at).next.get();
        }
    }
    // INVARIANT: linked, and each is a handle's from here on.
    Several { first }
}

/// Handles that nobody has yet.
///
/// # Invariants
/// From `first` on, which may be null, `next` leads to headers, and at last to null. The only
/// handle to each is this value's.
pub(crate) struct Several {
    first: *mut LentHeader,
}

// SAFETY: it owns handles, which are `Send`.
unsafe impl Send for Several {}
// SAFETY: nothing is read through a shared one.
unsafe impl Sync for Several {}

impl Default for Several {
    /// None.
    #[inline(always)]
    fn default() -> Self {
        Several { first: ptr::null_mut() }
    }
}

impl Iterator for Several {
    type Item = Lent;

    #[inline(always)]
    fn next(&mut self) -> Option<Lent> {
        let at = NonNull::new(self.first)?;
        // SAFETY: this value has the header (invariant).
        self.first = unsafe { (*at.as_ptr()).next.get() };
        // INVARIANT: the handle was this value's.
        Some(Lent { at })
    }
}

impl Drop for Several {
    #[inline(always)]
    fn drop(&mut self) {
        #[cold]
        #[inline(never)]
        fn rest(first: *mut LentHeader) {
            // INVARIANT: what the other value had, which goes.
            drop_each(&mut Several { first });
        }
        if !self.first.is_null() {
            rest(self.first);
        }
    }
}

/// The handle that a spare header becomes.
///
/// # Safety
/// The header is spare, and nobody else has it.
#[inline(always)]
unsafe fn filled(at: NonNull<LentHeader>, home: impl FnOnce() -> Home, loan: &Loan) -> Lent {
    let Loan { addr, len, lkey, pd, mark } = *loan;
    // SAFETY: a spare header has no handle, so it is ours but for the name of the queue, which
    // `renew` leaves alone.
    unsafe {
        let at = at.as_ptr();
        Header::renew(&raw mut (*at).header, addr, len, lkey, mark);
        (&raw mut (*at).pd).write(pd);
        (*at).id.set(0);
        (&raw mut (*at).home).write(MaybeUninit::new(home()));
    }
    // INVARIANT: the header has its home, and was spare.
    Lent { at }
}

/// The queue that a header names.
fn posted_to(header: NonNull<LentHeader>) -> *const Counter {
    // SAFETY: headers are never freed, and others touch the name atomically.
    unsafe { Header::name_of(&raw const (*header.as_ptr()).header) }
}

/// Takes the handles with headers of their own that are with one of the queues in `quiet`.
pub(super) fn lent_with(quiet: &Quiet) -> Vec<Lent> {
    let mut stranded = Vec::new();
    let (lowest, highest) = quiet.span();
    // One search at a time.
    spares::each(|header| {
        let name = posted_to(header);
        if name.addr().wrapping_sub(lowest) < highest.wrapping_sub(lowest) && quiet.has(name) {
            // SAFETY: the queue that had the handle is gone, and no completion can bring the handle
            // back any more (`Quiet`), so it is ours. That its header says so is taken back under
            // the lock, so no other thread finds it.
            let handle = unsafe { Lent::from_header(header.as_ptr().cast()) };
            handle.header().forget_queue();
            stranded.push(handle);
        }
    });
    // They are dropped outside the lock, because their Drop may take it.
    stranded
}

/// Whether the queue of these books has a handle with a header of its own.
#[cfg(debug_assertions)]
pub(super) fn is_lent_to(books: &crate::counters::books::Books) -> bool {
    let mut is_there = false;
    spares::each(|header| is_there |= books.has(posted_to(header)));
    is_there
}

impl Lent {
    #[inline(always)]
    pub fn header(&self) -> &Header {
        // SAFETY: headers are never freed.
        unsafe { self.at.cast().as_ref() }
    }

    /// The user's word.
    pub fn id(&self) -> u64 {
        // SAFETY: this is the only handle (invariant), so nobody else touches the word.
        unsafe { (*self.at.as_ptr()).id.get() }
    }

    pub fn set_id(&mut self, id: u64) {
        // SAFETY: this is the only handle (invariant), so nobody else touches the word.
        unsafe { (*self.at.as_ptr()).id.set(id) };
    }

    /// The most bytes that a piece had at a time: as `set_longest` said.
    #[inline(always)]
    pub fn longest(&self) -> usize {
        // SAFETY: this is the only handle (invariant), so nobody else touches the number.
        unsafe { (*self.at.as_ptr()).longest.get() }
    }

    #[inline(always)]
    pub fn set_longest(&mut self, len: usize) {
        // SAFETY: this is the only handle (invariant), so nobody else touches the number.
        unsafe { (*self.at.as_ptr()).longest.set(len) };
    }

    #[inline(always)]
    pub fn home(&self) -> &Home {
        // SAFETY: the header has its home (invariant), as long as its handle.
        unsafe { (*self.at.as_ptr()).home.assume_init_ref() }
    }

    /// Ends the handle. Its home is the caller's.
    #[inline(always)]
    pub fn into_home(self) -> Home {
        let (home, is_long) = self.apart();
        if is_long {
            spares::fewer();
        }
        home
    }

    /// Ends the handle. Its home is the caller's, and so is the call of `spares::fewer` if the
    /// answer is true.
    #[inline(always)]
    fn apart(self) -> (Home, bool) {
        let at = self.at;
        std::mem::forget(self);
        // SAFETY: the handle, the only one (invariant), was given up, so the home is read once, and
        // the header is spare.
        unsafe {
            let home = (*at.as_ptr()).home.assume_init_read();
            // It names a queue if it was part of a list that was dropped before it was posted.
            (*at.cast::<Header>().as_ptr()).forget_queue();
            (home, spares::put(at))
        }
    }

    /// # Safety
    /// `header` is that of a handle that `lend` made, and the caller has the only one to it.
    pub unsafe fn from_header(header: *mut Header) -> Self {
        // SAFETY: the address of a header is not null.
        Lent { at: unsafe { NonNull::new_unchecked(header.cast()) } }
    }
}

impl Clone for Lent {
    /// Another header for the same memory, with the same word.
    #[inline]
    fn clone(&self) -> Self {
        let h = self.header();
        let (addr, len, lkey, pd) = (h.addr(), h.capacity(), h.lkey(), h.pd());
        let mark = h.mark();
        let mut clone = lend(|| self.home().clone(), &Loan { addr, len, lkey, pd, mark });
        clone.set_id(self.id());
        clone
    }
}

impl Drop for Lent {
    /// (In line: most handles are dropped where a completion brings them. A call takes 8
    /// instructions, not least because a library does not know where its thread-locals are.)
    #[inline]
    fn drop(&mut self) {
        /// (With the home, so that nothing needs to be kept over the call.)
        #[cold]
        #[inline(never)]
        fn fewer_then(home: Home) {
            spares::fewer();
            drop(home);
        }
        // INVARIANT: this is the only handle, and it goes: another is made of it, once.
        match (Lent { at: self.at }.apart()) {
            (home, false) => drop(home),
            (home, true) => fewer_then(home),
        }
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::counters::books::{Books, SEND};
    use crate::memory::header::Handle;
    use crate::{loopback, prelude::*};

    /// However a handle ends, its thread keeps few spare headers.
    #[test]
    fn handles_that_end_leave_few_spare_headers() {
        static NONE: Kind = Kind { share: |_| (), release: |_| (), count: |_| 1, context: None };
        let loan = Loan { addr: ptr::null_mut(), len: 1, lkey: 0, pd: 0, mark: 0 };
        // SAFETY: references of this kind refer to nothing.
        let one = || lend(|| unsafe { Home::new(ptr::null(), &NONE) }, &loan);
        for end in [drop as fn(Lent), |handle| drop(handle.into_home())] {
            let handles: Vec<_> = (0..3 * spares::MOST).map(|_| one()).collect();
            handles.into_iter().for_each(end);
            assert!((1..=spares::MOST).contains(&spares::own()), "{}", spares::own());
        }
    }

    /// Two threads may look for what is stranded before either drops what it found: each handle is
    /// one thread's.
    #[test]
    fn a_stranded_handle_is_found_once() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let books = Books::new(pd.id()).unwrap();
        let region = pd.register::<RemoteRead>(64).unwrap();
        let piece = region.piece(0, 8).unwrap();
        let piece = std::mem::ManuallyDrop::new(piece);
        // SAFETY: the books are there.
        piece.header().give(unsafe { Books::counter(Arc::as_ptr(&books), SEND) });
        let mut quiet = Quiet::default();
        quiet.add(books);
        let found = lent_with(&quiet);
        assert_eq!((found.len(), lent_with(&quiet).len()), (1, 0));
        assert!(found[0].header().posted_to().is_null());
    }
}
