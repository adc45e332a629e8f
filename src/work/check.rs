//! What a post checks its work requests against, and what emission finds.

#![allow(unsafe_code)] // reads the table of address handles

use crate::counters::books::Counter;
use crate::counters::mark;
use crate::device::ah_table::AhTable;
use crate::memory::entry::Entry;
use crate::memory::header::Header;
use crate::work::data::MAX_LIST;
use crate::work::refusal::PostErrorKind;

/// What can be wrong with a work request, a bit each.
pub(crate) mod fault {
    /// A buffer is of another protection domain.
    pub const PD: u32 = 1;
    pub const INLINE: u32 = 2;
    pub const SGE: u32 = 4;
    pub const AH: u32 = 8;
    /// A buffer is of another pool than the shared receive queue's.
    pub const POOL: u32 = 16;
    pub const NO_BUFFER: u32 = 32;
    /// A WRITE without buffers goes beyond its remote slice, or a READ without buffers brings
    /// something. By how much, cold code reads from C's form.
    pub const BEYOND: u32 = 64;
}

/// What one post checks its work requests against, and what it found. It lives in registers, so it
/// only notes; cold code looks.
#[doc(hidden)]
pub struct Check {
    /// What the header of a buffer shows that the queue has.
    counter: *const Counter,
    ah: *const AhTable,
    max_sge: u32,
    max_inline: u32,
    faults: u32,
    /// The marks of the buffers, or-ed together.
    seen: u64,
}

impl Check {
    /// `counter` is what headers show of buffers that the queue has.
    #[inline(always)]
    pub(crate) fn new(counter: *const Counter, max_sge: u32, max_inline: u32) -> Self {
        let ah = std::ptr::null();
        Check { counter, ah, max_sge, max_inline, faults: 0, seen: 0 }
    }

    /// Goes on where another check has seen buffers with these marks.
    #[inline(always)]
    pub(crate) fn resume(&mut self, marks: u64) {
        self.seen = marks;
    }

    /// What was seen so far, for `resume`.
    #[inline(always)]
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Sees a buffer of a work request.
    #[inline(always)]
    pub(crate) fn see(&mut self, header: &Header) {
        self.seen |= header.mark();
    }

    /// A send with several buffers is to be looked at: it goes beyond its remote slice, or its
    /// buffers.
    #[inline(always)]
    pub(crate) fn look(&mut self) {
        self.seen |= mark::LOOK;
    }

    /// Something else is wrong: one of `fault`.
    #[inline(always)]
    pub(crate) fn note(&mut self, fault: u32) {
        self.faults |= fault;
    }

    /// Whether something was noted.
    #[inline(always)]
    pub(crate) fn has_faults(&self) -> bool {
        self.faults != 0
    }

    /// Shows in the header of an entry that the queue has it, before it is posted: so a list looks
    /// at no header twice. If it is not posted after all, whoever gets it makes it forget the
    /// queue.
    #[inline(always)]
    pub(crate) fn give<E: Entry>(&self, entry: &Option<E>) {
        if let Some(entry) = entry {
            // SAFETY: an entry of a work request has a buffer (`Data::emit`).
            unsafe { entry.header() }.give(self.counter);
        }
    }

    #[inline(always)]
    pub(crate) fn max_sge(&self) -> usize {
        (self.max_sge as usize).min(MAX_LIST)
    }

    #[inline(always)]
    pub(crate) fn max_inline(&self) -> usize {
        self.max_inline as usize
    }

    /// Holds lists of buffers to a slot's room as well.
    #[inline(always)]
    pub(crate) fn limit_sge(&mut self, most: u32) {
        self.max_sge = self.max_sge.min(most);
    }

    /// Where the address handles of the queue are, until the queue is borrowed anew.
    #[inline(always)]
    pub(crate) fn look_up_in(&mut self, ah: *const AhTable) {
        self.ah = ah;
    }

    /// The address handles of the queue; only UD work requests ask for them.
    ///
    /// # Safety
    /// `look_up_in` gave a table, which is there and was not borrowed mutably since.
    #[inline(always)]
    pub(crate) unsafe fn ah_table(&self) -> &AhTable {
        // SAFETY: the table is there, and nobody else has it mutably (the caller's word for it).
        unsafe { &*self.ah }
    }

    /// What was found, for a queue to which this is `strange`. To be asked once, so that one
    /// instruction tests and keeps the result.
    #[inline(always)]
    pub(crate) fn found(&self, strange: u64) -> Found {
        Found { faults: self.faults, strange: self.seen & strange }
    }

    /// As `found`, of one work request whose data `is_one` buffer, or may be several: the mark of
    /// one is read here, where it is the operand of the test.
    #[inline(always)]
    pub(crate) fn found_in<E: Entry>(
        &self,
        entry: &Option<E>,
        is_one: bool,
        strange: u64,
    ) -> Found {
        match entry {
            Some(entry) if is_one => {
                // SAFETY: an entry of a work request has a buffer (`Data::emit`).
                let header = unsafe { entry.header() };
                Found { faults: self.faults, strange: header.mark() & strange }
            }
            _ => self.found(strange),
        }
    }
}

/// What emission found: for cold code, in two registers.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub faults: u32,
    /// Not 0 if a buffer needs a look.
    strange: u64,
}

impl Found {
    /// Buffers have to be looked at, and nothing else is known to be wrong.
    pub const STRANGE: Found = Found { faults: 0, strange: 1 };

    /// Whether nothing is wrong, and no buffer needs a look.
    #[inline(always)]
    pub fn is_clear(self) -> bool {
        self.faults == 0 && self.strange == 0
    }

    /// Whether buffers have to be looked at.
    pub fn is_strange(self) -> bool {
        self.strange != 0
    }

    /// Whether cold code finds out more than what was noted.
    pub fn is_open(self) -> bool {
        self.is_strange() || self.faults & fault::BEYOND != 0
    }

    /// Without the marks: what is only tested can be the operand of the test.
    #[inline(always)]
    pub fn brief(self) -> Found {
        Found { strange: (self.strange != 0) as u64, ..self }
    }
}

/// What is wrong with a list, once cold code has looked.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    pub bits: u32,
    /// The first message that is too long.
    pub too_long: Option<PostErrorKind>,
}

impl Faults {
    /// The first of it, `None` if all is well; the limits are those of the queue.
    pub fn first(self, max_sge: u32, max_inline: u32) -> Option<PostErrorKind> {
        Some(match self.bits {
            f if f & fault::PD != 0 => PostErrorKind::PdMismatch,
            f if f & fault::INLINE != 0 => PostErrorKind::InlineTooLong { max: max_inline },
            f if f & fault::SGE != 0 => {
                PostErrorKind::TooManySge { max: max_sge.min(MAX_LIST as u32) }
            }
            f if f & fault::POOL != 0 => PostErrorKind::ForeignPool,
            f if f & fault::NO_BUFFER != 0 => PostErrorKind::NoBuffer,
            f if f & fault::AH != 0 && self.too_long.is_none() => {
                PostErrorKind::UnknownAddressHandle
            }
            _ => return self.too_long,
        })
    }
}
