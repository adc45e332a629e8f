// Proves R18.1: by the type of its memory the memory comes back, and is written or not.
// Enforced by invariance: a region of a subtype of its memory is another type.
use proverbs::memory::ExternalMemory;
use proverbs::prelude::*;

type General = ExternalMemory<for<'a> fn(&'a u8)>;
type Special = ExternalMemory<fn(&'static u8)>;

fn region(region: MemoryRegion<RemoteWrite, General>) -> MemoryRegion<RemoteWrite, Special> {
    region
}

fn pool(pool: Pool<(), General>) -> Pool<(), Special> {
    pool
}

fn arena(arena: Arena<(), General>) -> Arena<(), Special> {
    arena
}

fn main() {}

// A region cannot be coerced to a subtype of its memory, which might be read-only.
