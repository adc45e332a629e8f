//! A handle as a number: the address of a header, or of a counter where there is no buffer, with
//! tags in the six bits that its alignment leaves free.

/// No buffer: the address is that of the queue's counter, or with `RING` none.
pub const NONE: usize = 1;
/// Not a word but the wr_id of a ring. Only together with `NONE`.
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

/// Whether there is no buffer.
#[inline(always)]
pub fn is_none(word: usize) -> bool {
    word & NONE != 0
}

/// All tags: headers and counters are aligned to one more than this.
pub const TAGS: usize = 63;

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
