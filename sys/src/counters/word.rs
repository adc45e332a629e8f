//! A handle as a number: the address of a header, or of a counter if there is no buffer, with tags
//! in the six bits that the alignment leaves free. The upper 16 bits, above a counter's address,
//! contain a number chosen by the program.

use crate::counters::queue_counters::ADDRESS_BITS;

/// There is no buffer. The address is the queue's counter, or with `RING` there is none.
pub const NONE: usize = 1;
/// Not a word but the wr_id of a ring. Used only together with `NONE`, and without `RECEIVE`.
pub const RING: usize = 1 << 1;
/// The work request was a receive.
pub const RECEIVE: usize = 1 << 2;
/// The work request was a receive of a UD queue pair.
pub const DATAGRAM: usize = 1 << 3;
/// The bits of the kind of handle.
pub const KIND: usize = 0b11 << 4;
pub const EXCLUSIVE: usize = 0;
pub const SHARED: usize = 1 << 4;
pub const LIST: usize = 2 << 4;
pub const OPEN: usize = 3 << 4;
/// A memory window, which is never a receive. It has the kind `OPEN`, and differs by a bit that
/// has a meaning only in receives.
pub const WINDOW: usize = OPEN | DATAGRAM;
/// A piece of read-only memory, which is never a receive. It has the kind `LIST` and differs in
/// the same way.
pub const READ_ONLY: usize = LIST | DATAGRAM;
/// Memory of an implicit region, which is never a receive either. It has the kind `SHARED` and
/// differs in the same way.
pub const IMPLICIT: usize = SHARED | DATAGRAM;

/// Whether there is no buffer.
#[inline(always)]
pub fn is_none(word: usize) -> bool {
    word & NONE != 0
}

/// All tags. Headers are aligned to this value plus one.
pub const TAGS: usize = 63;

/// The position of the program's number in a word without a buffer, above the counter's
/// address.
pub const ID: u32 = ADDRESS_BITS;

/// The word of a work request without a buffer in a ring, with the bits of the program's
/// number.
#[inline(always)]
pub fn none(id: u64) -> usize {
    NONE | id as usize
}

/// The program's number in a word without a buffer.
#[inline(always)]
pub fn id(word: usize) -> u16 {
    (word as u64 >> ID) as u16
}

/// The address of the counter in a word without a buffer. Such a word does not have a kind.
#[inline(always)]
pub fn counter<T>(word: usize) -> *mut T {
    let tags = NONE | RING | RECEIVE | DATAGRAM;
    std::ptr::with_exposed_provenance_mut(word & ((1 << ID) - 1) & !tags)
}

/// The word that the entry returned, without the tags of a receive.
pub fn without_tags(word: usize) -> usize {
    let receive = if word & RECEIVE == 0 { 0 } else { RECEIVE | DATAGRAM };
    word & !receive
}

/// The kind of handle.
#[inline(always)]
pub fn kind(word: usize) -> usize {
    word & KIND
}

/// The address of the header (or counter) in a word.
#[inline(always)]
pub fn address<T>(word: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(word & !TAGS)
}

/// The word of a header and a kind.
#[inline(always)]
pub fn of<T>(at: *mut T, kind: usize) -> usize {
    at.expose_provenance() | kind
}

/// The lower half of the wr_ids of a ring with this tag, with tag bits that no handle has.
pub fn of_ring(tag: u32) -> u32 {
    tag << 3 | (RING | NONE) as u32
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;

    /// A send has its word as it was. A receive has two tags, which its entry does not see.
    #[test]
    fn the_tags_of_a_receive_are_removed() {
        let word = 0x1234_5600;
        for (posted, entry) in [
            (word, word),
            (word | DATAGRAM, word | DATAGRAM),
            (word | RECEIVE, word),
            (word | RECEIVE | DATAGRAM, word),
        ] {
            assert_eq!(without_tags(posted), entry, "{posted:#x}");
        }
    }
}
