// Proves R18.2, ibv_reg_mr(3): memory that other processes can write is never a slice, registered or not.
// Enforced by `SliceOfRegion`, and by what `SharedMapping` does not implement.
use proverbs::memory::SharedMapping;
use proverbs::prelude::*;

fn mapping(file: &SharedMapping) -> &[u8] {
    file
}

fn region(file: &MemoryRegion<LocalWrite, SharedMapping>) {
    let _ = &file[..8];
}

fn main() {}
