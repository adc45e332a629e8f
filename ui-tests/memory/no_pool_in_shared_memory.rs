// Proves R18.2, ibv_reg_mr(3): memory that other processes can write is never a slice, so it cannot be a pool.
// Enforced by `CanBeSlices`.
use proverbs::memory::SharedMapping;
use proverbs::prelude::*;

fn pool(pd: &ProtectionDomain, memory: SharedMapping) {
    let _ = pd.pool(4096).create_in(memory);
}

fn pool_with(pd: &ProtectionDomain, memory: SharedMapping) {
    let _ = pd.pool(4096).contexts(|index| index).create_in(memory);
}

fn main() {}
