// R6.9, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn outlive(pd: &ProtectionDomain) -> u64 {
    let region = pd.register::<RemoteAtomic>(64).unwrap();
    let cell = region.cell(0).unwrap();
    let value = cell.load(std::sync::atomic::Ordering::Relaxed);
    drop(region);
    value
}
