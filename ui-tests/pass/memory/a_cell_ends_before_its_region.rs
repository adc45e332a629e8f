// R6.9, ibv_reg_mr(3): the legal twin of ui-tests/memory/a_cell_ends_before_its_region.rs.
use proverbs::prelude::*;

fn outlive(pd: &ProtectionDomain) -> u64 {
    let region = pd.register::<RemoteAtomic>(64).unwrap();
    let cell = region.cell(0).unwrap();
    let value = cell.load(std::sync::atomic::Ordering::Relaxed);
    drop(region);
    value
}
