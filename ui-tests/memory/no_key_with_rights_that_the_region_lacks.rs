// Proves R6.7, ibv_reg_mr(3): no key with rights that the region lacks.
// Enforced by `Includes<B>`.
use proverbs::prelude::*;

fn export(region: &MemoryRegion<RemoteRead>) -> RemoteSlice<RemoteReadWrite> {
    region.export::<RemoteReadWrite>()
}

fn main() {}
