// R6.12, ibv_reg_mr(3): no slice of an open region.
// Enforced by the absence of `Deref` and `Index`.
use proverbs::*;

fn look(region: &MemoryRegion<RemoteWrite>) -> u8 {
    let bytes = &region[..];
    bytes[0]
}

fn main() {}
