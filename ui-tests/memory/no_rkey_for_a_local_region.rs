// Proves R6.6, ibv_reg_mr(3): no rkey for a local region.
// Enforced by `Remote`.
use proverbs::prelude::*;

fn whole(region: &MemoryRegion<LocalWrite>) {
    region.remote();
}

fn part(region: &MemoryRegion<LocalWrite>) {
    region.export::<RemoteRead>();
}

fn main() {}
