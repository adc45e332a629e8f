//! What emission needs to know of the queue, and what it finds wrong.

#![allow(unsafe_code)] // reads the books of the queue

use std::sync::atomic::Ordering;

use crate::buf::header::{Header, LARGE};
use crate::entry::Entry;
use crate::in_flight::{Books, PostErrorKind};
use crate::qp::ah_table::AhTable;

/// One list's view of its queue. It lives in registers.
#[doc(hidden)]
pub struct Port {
    books: *const Books,
    /// What the header of a buffer shows that needs no look.
    id: u32,
    ah: *const AhTable,
    /// The only pool that buffers may come from; null if any may.
    home: *const (),
    max_sge: u32,
    max_inline: u32,
    faults: u32,
    /// Not 0 if a buffer was not posted here last.
    strange: u32,
}

const PD: u32 = 1;
const INLINE: u32 = 2;
const SGE: u32 = 4;
const AH: u32 = 8;
const POOL: u32 = 16;
const EMPTY: u32 = 32;
const LENGTH: u32 = 64;
const MTU: u32 = 128;

impl Port {
    /// For sends.
    ///
    /// # Safety
    /// `books` outlives the value.
    #[inline(always)]
    pub(crate) unsafe fn new(books: *const Books, max_sge: u32, max_inline: u32) -> Self {
        // SAFETY: the caller's contract.
        let id = unsafe { (*books).id };
        let (ah, home) = (std::ptr::null(), std::ptr::null());
        Port { books, id, ah, home, max_sge, max_inline, faults: 0, strange: 0 }
    }

    /// For receives, whose buffers may be larger than a message that is sent: `id` is what those posted
    /// last were marked with.
    ///
    /// # Safety
    /// As for `new`.
    #[inline(always)]
    pub(crate) unsafe fn of_receives(books: *const Books, id: u32, max_sge: u32) -> Self {
        let (ah, home) = (std::ptr::null(), std::ptr::null());
        Port { books, id, ah, home, max_sge, max_inline: 0, faults: 0, strange: 0 }
    }

    /// Lets buffers come from one pool only, that whose headers have this home.
    #[inline(always)]
    pub(crate) fn only_from(self, home: *const ()) -> Self {
        Port { home, ..self }
    }

    #[inline(always)]
    pub(crate) fn no_buffer(&mut self) {
        self.faults |= EMPTY;
    }

    /// Compares protection domains and sizes, once for each buffer and queue: a buffer that was posted
    /// here last, and is too small to exceed a message, needs no second look. Ids are never used again, so
    /// that no later queue is taken for this one.
    #[inline(always)]
    pub(crate) fn attach(&mut self, header: &Header) {
        // Only noted here: a call before the post would cost the hot path its registers.
        self.strange |= header.queue_id.load(Ordering::Relaxed) ^ self.id;
    }

    #[inline(always)]
    pub(crate) fn max_sge(&self) -> usize {
        (self.max_sge as usize).min(super::data::MAX_LIST)
    }

    #[inline(always)]
    pub(crate) fn max_inline(&self) -> usize {
        self.max_inline as usize
    }

    /// Holds run-time lists to a slot's room as well.
    #[inline(always)]
    pub(crate) fn limit_sge(&mut self, most: u32) {
        self.max_sge = self.max_sge.min(most);
    }

    #[inline(always)]
    pub(crate) fn too_many_sge(&mut self) {
        self.faults |= SGE;
    }

    #[inline(always)]
    pub(crate) fn inline_too_long(&mut self) {
        self.faults |= INLINE;
    }

    #[inline(always)]
    pub(crate) fn unknown_ah(&mut self) {
        self.faults |= AH;
    }

    /// Where the address handles of the queue are, until the queue's core is borrowed anew.
    #[inline(always)]
    pub(crate) fn look_up_in(&mut self, ah: *const AhTable) {
        self.ah = ah;
    }

    /// The address handles of the queue; only UD work requests ask for them.
    ///
    /// # Safety
    /// The port was told of a table, which is there and was not borrowed mutably since.
    #[inline(always)]
    pub(crate) unsafe fn ah_table(&self) -> &AhTable {
        // SAFETY: the caller's contract.
        unsafe { &*self.ah }
    }

    /// Whether nothing is wrong, and every buffer was posted here last.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        (self.faults | self.strange) == 0
    }

    /// What cold code needs of the port, by value.
    #[inline(always)]
    pub(crate) fn findings(&self) -> Findings {
        Findings { books: self.books, home: self.home, faults: self.faults, strange: self.strange }
    }

    #[inline(always)]
    pub(crate) fn is_faulty(&self) -> bool {
        self.faults != 0
    }

    /// Forgets what was found wrong: the work request is not part of the list.
    pub(crate) fn clear(&mut self) {
        self.faults = 0;
        self.strange = 0;
    }
}

/// What emission found, for cold code.
#[derive(Clone, Copy)]
pub(crate) struct Findings {
    books: *const Books,
    home: *const (),
    faults: u32,
    strange: u32,
}

impl Findings {
    /// Looks at the buffers of sends that were posted elsewhere last, or are large, and says what is
    /// wrong in all.
    #[cold]
    pub(crate) fn settle_sends<E: Entry>(self, entries: &[Option<E>]) -> Faults {
        let mut faults = Faults { bits: self.faults, longest: 0, asked: 0 };
        if self.strange != 0 {
            // SAFETY: the books outlive the port that found this.
            let books = unsafe { &*self.books };
            let (longest, by_mtu) = books.longest_message();
            faults.longest = longest;
            for entry in entries.iter().flatten() {
                // 64 bits: the lengths of a list can exceed 32 (R2.8).
                let mut asked = 0;
                entry.each_header(&mut |header| {
                    faults.bits |= attach(self.books, self.home, header);
                    asked += header.len.get() as u64;
                });
                if asked > longest.into() && faults.asked == 0 {
                    faults.bits |= if by_mtu { MTU } else { LENGTH };
                    faults.asked = asked;
                }
            }
        }
        faults
    }

    /// As `settle_sends`, for receives. Gives what the last buffer is marked with: the next receive is
    /// probably as large.
    #[cold]
    pub(crate) fn settle_receives<E: Entry>(self, entries: &[Option<E>], last: &mut u32) -> Faults {
        let mut faults = self.faults;
        if self.strange != 0 {
            for entry in entries.iter().flatten() {
                entry.each_header(&mut |header| {
                    faults |= attach(self.books, self.home, header);
                    let mark = header.queue_id.load(Ordering::Relaxed);
                    if (mark ^ *last) & !LARGE == 0 {
                        *last = mark;
                    }
                });
            }
        }
        Faults { bits: faults, longest: 0, asked: 0 }
    }
}

/// What emission found wrong.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    bits: u32,
    longest: u32,
    /// The first message that is too long, bytes.
    asked: u64,
}

impl Faults {
    pub(crate) fn is_none(self) -> bool {
        self.bits == 0
    }

    /// The first of it, `None` if all is well; the limits are those of the queue.
    pub(crate) fn first(self, max_sge: u32, max_inline: u32) -> Option<PostErrorKind> {
        let (asked, max) = (self.asked, self.longest);
        Some(match self.bits {
            0 => return None,
            f if f & PD != 0 => PostErrorKind::PdMismatch,
            f if f & INLINE != 0 => PostErrorKind::InlineTooLong { max: max_inline },
            f if f & SGE != 0 => {
                PostErrorKind::TooManySge { max: max_sge.min(super::data::MAX_LIST as u32) }
            }
            f if f & POOL != 0 => PostErrorKind::ForeignPool,
            f if f & EMPTY != 0 => PostErrorKind::NoBuffer,
            f if f & LENGTH != 0 => PostErrorKind::ExceedsMessage { asked, max },
            f if f & MTU != 0 => PostErrorKind::ExceedsMtu { asked, max },
            _ => PostErrorKind::UnknownAddressHandle,
        })
    }
}

fn attach(books: *const Books, home: *const (), header: &Header) -> u32 {
    if !home.is_null() && header.home != home {
        return POOL;
    }
    // SAFETY: the books outlive the port that called.
    let books_here = unsafe { &*books };
    if header.pd != books_here.pd {
        return PD;
    }
    let is_large = header.capacity > books_here.small.load(Ordering::Relaxed);
    let mark = if is_large { books_here.id | LARGE } else { books_here.id };
    header.queue.store(books.cast_mut(), Ordering::Relaxed);
    header.queue_id.store(mark, Ordering::Relaxed);
    0
}
