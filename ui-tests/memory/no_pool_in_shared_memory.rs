// Proves R18.2, ibv_reg_mr(3): what other processes can write is no slice, so it makes no pool.
// Enforced by `CanBeSlices`.
use proverbs::memory::SharedMapping;
use proverbs::prelude::*;

fn pool(pd: &ProtectionDomain, memory: SharedMapping) {
    let _ = pd.create_pool_in(memory, 4096);
}

fn pool_with(pd: &ProtectionDomain, memory: SharedMapping) {
    let _ = pd.create_pool_in_with(memory, 4096, |index| index);
}

fn main() {}
