//! The encoding of `Header::type_tag`, which says what a buffer is, and of the masks of queues.
//!
//! A type tag has a code for the protection domain, one for the pool, and a bit for each fact:
//! whether a send must look at the buffer, and for each of some sizes whether the buffer is larger.
//! A queue has a mask of the bits that a buffer must not have. So one test tells whether a buffer
//! needs a look, and the same test whether one of several does, on their type tags or-ed together.
//!
//! For this no code has all bits of another: the mask of a queue has the bits that are not in the
//! code of its own domain, and each other domain's code has one of them. To this end a number is
//! stored with the number of its zeros (a Berger code): a number that has all the bits of another,
//! and more, has fewer zeros, and a smaller number lacks some bit of a larger one.

/// The next send of the buffer is looked at: it is or was empty (R3.3), goes beyond its remote
/// slice, or was narrowed to fewer bytes than an atomic returns (R4.1).
pub const LOOK: u64 = 1;
/// The bytes that an atomic returns.
pub const ATOMIC: u32 = 8;
/// The mask of a queue for which every buffer is looked at: each type tag has some bit.
pub const ANY: u64 = !0;

/// Capacities in bytes; bit `1 + i` of a type tag says that the buffer is larger than the `i`th.
/// They are the MTUs, and what is left of the longest message of usual devices for an element of
/// many.
const SIZES: [u32; 11] =
    [256, 512, 1024, 2048, 4096, 1 << 16, 1 << 18, 1 << 20, 1 << 23, 1 << 25, 1 << 30];

/// Codes of numbers of `BITS` bits, from bit `AT` of a type tag on.
struct Codes<const BITS: u32, const AT: u32>;

/// Protection domains: their numbers are never reused.
type Pd = Codes<25, 34>;
/// Pools: their numbers are reused when the pool and its buffers are gone.
type Pool = Codes<17, 12>;

/// One more than the largest number of a pool.
pub const POOLS: u32 = 1 << 17;
/// The pool's number of a buffer that is of no pool.
pub const NO_POOL: u32 = u32::MAX;

impl<const BITS: u32, const AT: u32> Codes<BITS, AT> {
    const FIRST: u32 = AT;
    /// The number of zeros has 5 bits.
    const ALL: u64 = (1 << (BITS + 5)) - 1;

    /// The code of a number. Those that have no room share one that is a mismatch for every queue.
    fn of(number: u32) -> u64 {
        const { assert!(BITS < 32 && AT + BITS + 5 <= 64) };
        let code = match number >> BITS {
            0 => (number as u64) << 5 | (BITS - number.count_ones()) as u64,
            _ => Self::ALL,
        };
        code << AT
    }

    /// The mask of a queue with this number.
    fn but(number: u32) -> u64 {
        match number >> BITS {
            0 => !Self::of(number) & Self::ALL << AT,
            _ => Self::ALL << AT,
        }
    }
}

/// The type tag of a buffer of this domain, pool and size.
pub fn of(pd: u32, pool: u32, capacity: u32) -> u64 {
    Pd::of(pd) | Pool::of(pool) | of_size(capacity)
}

/// The type tag of the same buffer with another size.
pub fn resized(type_tag: u64, capacity: u32) -> u64 {
    let look = if capacity < ATOMIC { LOOK } else { 0 };
    type_tag & !(OF_SIZE & !LOOK) | of_size(capacity) | look
}

/// The type tag of a buffer of no pool, of the same domain as the one that has this type tag.
#[inline]
pub fn without_pool(type_tag: u64, capacity: u32) -> u64 {
    type_tag & !OF_SIZE | Pool::ALL << Pool::FIRST | of_size(capacity)
}

/// The bits that `of_size` gives, and that nothing else does.
const OF_SIZE: u64 = (1 << Pool::FIRST) - 1;

/// The same type_tag, of a buffer of no pool, with another size.
#[inline]
pub fn sized(type_tag: u64, capacity: u32) -> u64 {
    type_tag & !OF_SIZE | of_size(capacity)
}

/// The bits of the sizes up to a number, by its highest bit.
const BEYOND: [u16; 32] = {
    let mut all = [0; 32];
    let mut bit = 0;
    while bit < all.len() {
        let mut i = 0;
        while i < SIZES.len() {
            assert!(SIZES[i].is_power_of_two() && SIZES[i] > 1);
            if bit as u32 >= SIZES[i].ilog2() {
                all[bit] |= 2 << i;
            }
            i += 1;
        }
        bit += 1;
    }
    all
};

/// What the size says. (Pieces of regions are made where they are sent, so it is looked up, by the
/// offset of the last byte.)
#[inline]
fn of_size(capacity: u32) -> u64 {
    match capacity.checked_sub(1) {
        // (An offset of 0 as one of 1: no size is between them.)
        Some(last) => BEYOND[(last | 1).ilog2() as usize].into(),
        None => LOOK,
    }
}

/// The mask of receives of a queue of this domain.
pub fn receive_mask(pd: u32) -> u64 {
    Pd::but(pd)
}

/// The mask of a shared receive queue that takes buffers of this pool.
pub fn pool_mask(pool: u32) -> u64 {
    Pool::but(pool)
}

/// The mask of sends of a queue of this domain that need not look at buffers of up to
/// `small` bytes.
pub fn send_mask(pd: u32, small: u32) -> u64 {
    // The sizes are powers of two, so the highest bit of `small` says which it has room for. (That
    // of 1, as for 0, has room for none.)
    match BEYOND[(small | 1).ilog2() as usize].checked_ilog2() {
        Some(largest) => Pd::but(pd) | LOOK | 1 << largest,
        None => ANY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A type tag has a bit for each size that the buffer exceeds.
    #[test]
    fn sizes() {
        let around = SIZES.iter().flat_map(|&size| [size - 1, size, size + 1]);
        for capacity in around.chain([1, 2, 3, 7, 100, 1 << 31, u32::MAX]) {
            let larger = SIZES.iter().filter(|&&size| capacity > size).count();
            assert_eq!(of_size(capacity), ((1 << larger) - 1) << 1, "{capacity}");
            assert_eq!(
                without_pool(of(3, 5, 9000), capacity),
                of(3, NO_POOL, capacity),
                "{capacity}"
            );
            let piece = of(3, NO_POOL, capacity);
            assert_eq!(sized(of(3, NO_POOL, 9000), capacity), piece, "{capacity}");
        }
        // What an atomic returns fits into 8 bytes, and not into 7.
        let looked_at = [7, 8].map(|capacity| resized(of(3, 5, 64), capacity) & LOOK != 0);
        assert_eq!(looked_at, [true, false]);
        assert_eq!((of_size(0), without_pool(of(3, 5, 8), 0)), (LOOK, of(3, NO_POOL, 0)));
    }
}
