// Proves R6.7, ibv_reg_mr(3): cells are of regions that are open to the fabric (`Remote`).
// Enforced by `Remote`.
use proverbs::prelude::*;

fn local(region: &MemoryRegion<LocalWrite>) {
    let _ = region.cell(0);
}

fn main() {}
