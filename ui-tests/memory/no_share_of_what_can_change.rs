// Proves R18.2, ibv_reg_mr(3): memory that a peer or a process can write cannot be shared as a slice.
// Enforced by `NeverChanges`.
use proverbs::memory::{ReadOnly, SharedMapping};
use proverbs::prelude::*;

fn writable(table: &MemoryRegion<RemoteRead, Box<[u8]>>) {
    let _ = table.share(0, 8);
}

fn file(table: &MemoryRegion<RemoteRead, SharedMapping<ReadOnly>>) {
    let _ = table.share(0, 8);
}

fn main() {}
