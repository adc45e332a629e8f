// Proves R6.9, ibv_reg_mr(3): a cell ends before its region.
// Enforced by the lifetime of `MemoryRegion::cell`.
use proverbs::prelude::*;

fn outlive(pd: &ProtectionDomain) -> u64 {
    let region = pd.register::<RemoteAtomic>(64).unwrap();
    let cell = region.cell(0).unwrap();
    drop(region);
    cell.load(std::sync::atomic::Ordering::Relaxed)
}

fn main() {}
