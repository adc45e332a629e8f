//! What emission needs to know of the queue, and what it finds wrong.

#![allow(unsafe_code)] // reads the books of the queue

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

use super::{chain, op};
use crate::buf::header::{Header, mark};
use crate::entry::Entry;
use crate::in_flight::{Books, PostErrorKind};
use crate::qp::ah_table::AhTable;
use crate::sys::types::ibv_send_wr;

/// One list's view of its queue. It lives in registers.
#[doc(hidden)]
pub struct Port {
    /// What the header of a buffer shows that needs no look.
    mark: u64,
    ah: *const AhTable,
    max_sge: u32,
    max_inline: u32,
    faults: u32,
    /// The states of the buffers, or-ed together; whether there are any.
    seen: u64,
    has_seen: bool,
}

const PD: u32 = 1;
const INLINE: u32 = 2;
const SGE: u32 = 4;
const AH: u32 = 8;
const POOL: u32 = 16;
const EMPTY: u32 = 32;
const BEYOND: u32 = 64;

impl Port {
    /// `mark` is what headers show that need no look: that of a direction of the queue.
    #[inline(always)]
    pub(crate) fn new(mark: u64, max_sge: u32, max_inline: u32) -> Self {
        let ah = std::ptr::null();
        Port { mark, ah, max_sge, max_inline, faults: 0, seen: 0, has_seen: false }
    }

    /// As one that has seen buffers with these states; the mark itself, if all were posted here last, or none was seen. So the
    /// first of a list need not be told from the others.
    #[inline(always)]
    pub(crate) fn has_seen(&mut self, states: u64) {
        (self.seen, self.has_seen) = (states, true);
    }

    /// What was seen so far, for `has_seen`.
    #[inline(always)]
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether something is wrong with a work request besides its buffers.
    #[inline(always)]
    pub(crate) fn has_faults(&self) -> bool {
        self.faults != 0
    }

    #[inline(always)]
    pub(crate) fn no_buffer(&mut self) {
        self.faults |= EMPTY;
    }

    /// Compares protection domains and sizes, once for each buffer and queue: a buffer that was posted
    /// here last, and is neither empty nor large enough to exceed a message, needs no second look. Ids are never used again, so
    /// that no later queue is taken for this one.
    #[inline(always)]
    pub(crate) fn attach(&mut self, header: &Header) {
        // Only noted here: a call before the post would cost the hot path its registers. What is not this queue's mark
        // adds a bit that the mark has not.
        let state = header.state();
        self.seen = if self.has_seen { self.seen | state } else { state };
        self.has_seen = true;
    }

    /// Shows in the header of an entry that the queue has it, before it is posted: who posts several looks
    /// at no header twice. If it is not posted after all, whoever gets it makes it forget the queue.
    #[inline(always)]
    pub(crate) fn give<E: Entry>(&self, entry: &Option<E>) {
        if let Some(entry) = entry {
            // SAFETY: an entry of a work request has a buffer (`Data::emit`).
            unsafe { entry.header() }.give(self.mark);
        }
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

    /// A work request with several buffers is to be looked at: it goes beyond its remote slice, or its buffers.
    #[inline(always)]
    pub(crate) fn look(&mut self) {
        self.seen |= mark::NEVER;
        self.has_seen = true;
    }

    /// A WRITE without buffers goes beyond its remote slice, or a READ without buffers brings something. By how much, cold code
    /// reads from C's form.
    #[inline(always)]
    pub(crate) fn beyond(&mut self) {
        self.faults |= BEYOND;
    }

    /// As `findings`, of one work request whose data `is_one` buffer, or may be several: the state of one is read
    /// here, where it is the operand of the comparison.
    #[inline(always)]
    pub(crate) fn findings_of<E: Entry>(&self, entry: &Option<E>, is_one: bool) -> Findings {
        match entry {
            Some(entry) if is_one => {
                // SAFETY: an entry of a work request has a buffer (`Data::emit`).
                let header = unsafe { entry.header() };
                Findings { faults: self.faults, strange: header.state() ^ self.mark }
            }
            _ => self.findings(),
        }
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

    /// What was found: for cold code, in two registers. To be asked once, so that one instruction compares and keeps the result.
    #[inline(always)]
    pub(crate) fn findings(&self) -> Findings {
        let strange = if self.has_seen { self.seen ^ self.mark } else { 0 };
        Findings { faults: self.faults, strange }
    }
}

/// What emission found, for cold code.
#[derive(Clone, Copy)]
pub(crate) struct Findings {
    faults: u32,
    /// Not 0 if a buffer was not posted here last.
    strange: u64,
}

/// The queue that buffers are looked at for.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    pub books: *const Books,
    /// What headers show of buffers that were posted here last.
    pub mark: u64,
    /// The only pool that buffers may come from; null if any may.
    pub home: *const (),
}

impl Findings {
    /// Buffers have to be looked at, and nothing else is known to be wrong.
    pub(crate) const LOOK: Findings = Findings { faults: 0, strange: 1 };

    /// Whether something is wrong besides the buffers.
    pub(crate) fn is_fault(&self) -> bool {
        self.faults != 0
    }

    /// Without the states: what is only compared can be the operand of the comparison.
    #[inline(always)]
    pub(crate) fn brief(self) -> Findings {
        Findings { strange: (self.strange != 0) as u64, ..self }
    }

    /// Whether nothing is wrong, and every buffer was posted here last.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.faults == 0 && self.strange == 0
    }

    /// Looks at sends whose buffers were posted elsewhere last, are empty, or are large, or that go beyond a
    /// slice or their buffers, and says what is wrong in all. `wrs` are they, without elements of no bytes, and the words of
    /// their entries, 0 where there is none.
    ///
    /// # Safety
    /// The words are those of entries of type `E` that the caller owns; the queue's books are live; the work requests
    /// are emitted.
    #[cold]
    pub(crate) unsafe fn settle_sends<E: Entry>(
        self,
        queue: Queue,
        wrs: impl Iterator<Item = (*mut ibv_send_wr, usize)>,
    ) -> Faults {
        let mut faults = Faults { bits: self.faults, kind: None };
        if self.strange == 0 && self.faults & BEYOND == 0 {
            return faults;
        }
        // SAFETY: the caller's contract.
        let (max, by_mtu) = unsafe { &*queue.books }.longest_message();
        for (wr, word) in wrs {
            // SAFETY: as above.
            let asked = unsafe { chain::bytes(wr) };
            // SAFETY: as above.
            if self.strange != 0 && word != 0 {
                // SAFETY: as above.
                unsafe { look_at::<E>(word) }.each_header(&mut |header| {
                    // SAFETY: as above.
                    faults.bits |= unsafe { queue.attach(header) };
                });
                if asked > max.into() {
                    faults.note(match by_mtu {
                        true => PostErrorKind::ExceedsMtu { asked, max },
                        false => PostErrorKind::ExceedsMessage { asked, max },
                    });
                }
            }
            // SAFETY: as above.
            unsafe { op::beyond(wr, asked) }.into_iter().for_each(|kind| faults.note(kind));
        }
        faults
    }

    /// As `settle_sends`, for receives.
    ///
    /// # Safety
    /// As there.
    #[cold]
    pub(crate) unsafe fn settle_receives<E: Entry>(
        self,
        queue: Queue,
        words: impl Iterator<Item = usize>,
    ) -> Faults {
        let mut bits = self.faults;
        if self.strange != 0 {
            for word in words.filter(|&word| word != 0) {
                // SAFETY: the caller's contract.
                let entry = unsafe { look_at::<E>(word) };
                // SAFETY: as above.
                entry.each_header(&mut |header| bits |= unsafe { queue.attach(header) });
            }
        }
        Faults { bits, kind: None }
    }
}

impl Queue {
    /// Compares protection domain and size of a buffer, and notes the queue in it; what is wrong.
    ///
    /// # Safety
    /// The books are live.
    unsafe fn attach(&self, header: &Header) -> u32 {
        if !self.home.is_null() && header.home != self.home {
            return POOL;
        }
        // SAFETY: the caller's contract.
        let books = unsafe { &*self.books };
        if header.pd() != books.pd {
            return PD;
        }
        let is_receive = self.mark & mark::RECEIVE != 0;
        let is_large = header.capacity > books.small.load(Ordering::Relaxed);
        let look = !is_receive && (is_large || header.len() == 0);
        // SAFETY: as above.
        let counter = unsafe { Books::counter(self.books, is_receive as usize) };
        header.attach(counter, self.mark | if look { mark::LOOK } else { 0 });
        0
    }
}

/// The entry of a word, to look at: it is not ours to drop.
///
/// # Safety
/// `word` is that of an `E`, which is there.
unsafe fn look_at<E: Entry>(word: usize) -> ManuallyDrop<E> {
    // SAFETY: the caller's contract.
    ManuallyDrop::new(unsafe { E::from_word(word) })
}

/// What emission found wrong.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    bits: u32,
    /// The first message that is too long.
    kind: Option<PostErrorKind>,
}

impl Faults {
    pub(crate) fn is_none(self) -> bool {
        self.bits == 0 && self.kind.is_none()
    }

    fn note(&mut self, kind: PostErrorKind) {
        self.kind = self.kind.or(Some(kind));
    }

    /// The first of it, `None` if all is well; the limits are those of the queue.
    pub(crate) fn first(self, max_sge: u32, max_inline: u32) -> Option<PostErrorKind> {
        Some(match self.bits {
            f if f & PD != 0 => PostErrorKind::PdMismatch,
            f if f & INLINE != 0 => PostErrorKind::InlineTooLong { max: max_inline },
            f if f & SGE != 0 => {
                PostErrorKind::TooManySge { max: max_sge.min(super::data::MAX_LIST as u32) }
            }
            f if f & POOL != 0 => PostErrorKind::ForeignPool,
            f if f & EMPTY != 0 => PostErrorKind::NoBuffer,
            f if f & AH != 0 && self.kind.is_none() => PostErrorKind::UnknownAddressHandle,
            _ => return self.kind,
        })
    }
}
