//! The encoding of `Header::type_tag`, which describes a buffer, and of the masks of queues.
//!
//! A type tag has a code for the protection domain, one for the pool, bits that tell whether a send
//! or a receive must inspect the buffer, and for each of some sizes a bit that tells whether the
//! buffer is larger. A queue has a mask of the bits that a buffer must not have. So one test
//! detects whether a buffer must be inspected. The same test on the type tags of several buffers,
//! or-ed together, detects whether one of them must be.
//!
//! This requires that no code has all bits of another code. The mask of a queue has the bits that
//! are not in the code of its own domain, and the code of each other domain has at least one of
//! them. Therefore a number is stored with the number of its zeros (a Berger code). A number that
//! has all the bits of another, and more, has fewer zeros, and a smaller number lacks some bit of a
//! larger one.

/// The next send inspects the buffer: it is or was empty (R3.3), exceeds its remote slice, or was
/// narrowed to fewer bytes than an atomic returns (R4.1).
pub const LOOK: u64 = 1;
/// The next receive omits the buffer's element: it has no bytes (R3.3).
pub const EMPTY: u64 = 1 << (Pool::FIRST - 1);
/// The number of bytes that an atomic returns.
pub const ATOMIC: u32 = 8;
/// The mask of a queue that inspects every buffer: each type tag has at least one bit.
pub const ANY: u64 = !0;

/// Capacities in bytes. Bit `1 + i` of a type tag means that the buffer is larger than the `i`th.
/// They are the MTUs, and the longest message of usual devices divided by numbers of elements.
const SIZES: [u32; 10] = [256, 512, 1024, 2048, 4096, 1 << 16, 1 << 18, 1 << 20, 1 << 23, 1 << 30];

/// Codes of numbers of `BITS` bits, starting at bit `AT` of a type tag.
struct Codes<const BITS: u32, const AT: u32>;

/// Protection domains: their numbers are never reused.
type Pd = Codes<25, 34>;
/// Pools: their numbers are reused when the pool and its buffers are gone.
type Pool = Codes<17, 12>;

/// One more than the largest number of a pool.
pub const POOLS: u32 = 1 << 17;
/// The pool's number of a buffer that does not belong to a pool.
pub const NO_POOL: u32 = u32::MAX;

impl<const BITS: u32, const AT: u32> Codes<BITS, AT> {
    const FIRST: u32 = AT;
    /// The number of zeros has 5 bits.
    const ALL: u64 = (1 << (BITS + 5)) - 1;

    /// The code of a number. Numbers that are too large share a code that no queue accepts.
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

/// The type tag of a buffer of the same domain that does not belong to a pool, with another size.
#[inline]
pub fn without_pool(type_tag: u64, capacity: u32) -> u64 {
    type_tag & !OF_SIZE | Pool::ALL << Pool::FIRST | of_size(capacity)
}

/// The same type tag without the pool, for a buffer that may be of any pool.
#[inline(always)]
pub fn of_any_pool(type_tag: u64) -> u64 {
    type_tag & !(Pool::ALL << Pool::FIRST)
}

/// The same type tag without the size, for a buffer whose bytes are not used.
#[inline(always)]
pub fn of_any_size(type_tag: u64) -> u64 {
    type_tag & !OF_SIZE
}

/// The bits that only `of_size` sets.
const OF_SIZE: u64 = (1 << Pool::FIRST) - 1;

/// The same type tag with another size, for a buffer that does not belong to a pool.
#[inline]
pub fn sized(type_tag: u64, capacity: u32) -> u64 {
    type_tag & !OF_SIZE | of_size(capacity)
}

/// The size bits for a number, indexed by its highest bit.
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

/// The bits of a size. (Pieces of regions are created for each send, so this is a table lookup by
/// the offset of the last byte.)
#[inline]
fn of_size(capacity: u32) -> u64 {
    match capacity.checked_sub(1) {
        // (Offset 0 counts as 1, because no size is between them.)
        Some(last) => BEYOND[(last | 1).ilog2() as usize].into(),
        None => LOOK | EMPTY,
    }
}

/// The mask for receives of a queue in this domain.
pub fn receive_mask(pd: u32) -> u64 {
    Pd::but(pd) | EMPTY
}

/// The mask of a shared receive queue that takes buffers of this pool.
pub fn pool_mask(pool: u32) -> u64 {
    Pool::but(pool)
}

/// The mask for sends of a queue in this domain that does not have to inspect buffers of up to
/// `small` bytes.
pub fn send_mask(pd: u32, small: u32) -> u64 {
    // The sizes are powers of two, so the highest bit of `small` determines which of them fit. (For
    // 1, as for 0, none does.)
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
        // The result of an atomic fits into 8 bytes, but not into 7.
        let looked_at = [7, 8].map(|capacity| resized(of(3, 5, 64), capacity) & LOOK != 0);
        assert_eq!(looked_at, [true, false]);
        assert_eq!((of_size(0), without_pool(of(3, 5, 8), 0)), (LOOK | EMPTY, of(3, NO_POOL, 0)));
    }
}
