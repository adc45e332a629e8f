//! The encoding of `Header::state`: a queue's id and direction (its *mark*), or `NOBODY`, and
//! flags.
//!
//! Of two different marks neither has all the bits of the other, and no mark has a flag's bit. So
//! the states of several buffers, or-ed together, equal a queue's mark exactly if each of them
//! does: a list needs one comparison. To this end an id is stored with the number of its zeros (a
//! Berger code): an id that has all the bits of another, and more, has fewer zeros, and a smaller
//! number lacks some bit of a larger one.

/// The device has the buffer.
pub const IN_FLIGHT: u64 = 1;
/// Each send of the buffer is checked: it is empty (R3.3), or may be longer than a message (R3.5,
/// R3.6).
pub const LOOK: u64 = 1 << 1;
const SEND: u64 = 1 << 2;
/// The mark is of the queue's receives.
pub const RECEIVE: u64 = 1 << 3;
/// The buffer is with no queue.
pub const NOBODY: u64 = 1 << 4;
/// The mark of a queue for which every buffer is checked. No state equals it.
pub const NEVER: u64 = 1 << 5;
const ID_BITS: u32 = 52;
/// One more than the largest id.
pub const IDS: u64 = 1 << ID_BITS;
/// The positions of the number of zeros, which has 6 bits, and of the id.
const ZEROS: u32 = 6;
const ID: u32 = 64 - ID_BITS;

/// The mark of a queue and direction.
pub fn of(id: u64, direction: usize) -> u64 {
    debug_assert!(id < IDS);
    let zeros = ID_BITS - id.count_ones();
    let direction = if direction == 0 { SEND } else { RECEIVE };
    id << ID | (zeros as u64) << ZEROS | direction
}

/// The id of the queue.
pub fn id(state: u64) -> u64 {
    state >> ID
}
