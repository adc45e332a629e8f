// R18.2, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::memory::{Mapping, SharedMapping};
use proverbs::prelude::*;

fn pool(pd: &ProtectionDomain, memory: Mapping) {
    let _ = pd.create_pool_in(memory, 4096);
}

fn pool_with(pd: &ProtectionDomain, memory: Mapping) {
    let _ = pd.create_pool_in_with(memory, 4096, |index| index);
}

fn region(pd: &ProtectionDomain, memory: SharedMapping) {
    let _ = pd.register_in::<RemoteRead, _>(memory);
}
