// R18.2, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::memory::{Mapping, SharedMapping};
use proverbs::prelude::*;

fn pool(pd: &ProtectionDomain, memory: Mapping) {
    let _ = pd.pool(4096).create_in(memory);
}

fn pool_with(pd: &ProtectionDomain, memory: Mapping) {
    let _ = pd.pool(4096).contexts(|index| index).create_in(memory);
}

fn region(pd: &ProtectionDomain, memory: SharedMapping) {
    let _ = pd.region::<RemoteRead>().create_in(memory);
}
