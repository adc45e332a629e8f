// Proves R6.12, ibv_reg_mr(3): no slice of an open region.
// Enforced by `SliceOfRegion`.
use proverbs::prelude::*;

fn look(region: &MemoryRegion<RemoteWrite>) -> u8 {
    let bytes = &region[..];
    bytes[0]
}

fn write(region: &mut MemoryRegion<RemoteRead>) {
    region[0..4].copy_from_slice(b"four");
}

fn main() {}
