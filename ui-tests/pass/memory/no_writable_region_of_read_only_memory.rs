// R6.3, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::memory::{LocalRead, ReadOnly, SharedMapping, Windowed};
use proverbs::prelude::*;

fn for_readers(pd: &ProtectionDomain, file: SharedMapping<ReadOnly>) {
    let _ = pd.register_in::<RemoteRead, _>(file);
}

fn for_this_program(pd: &ProtectionDomain, text: &'static mut [u8]) {
    let _ = pd.register_in::<LocalWrite, _>(text);
}

fn for_atomics(pd: &ProtectionDomain, table: Vec<u64>) {
    let _ = pd.register_in::<RemoteAtomic, _>(table);
}

fn for_windows(pd: &ProtectionDomain, text: &'static mut [u8]) {
    let _ = pd.register_in::<Windowed<RemoteRead>, _>(text);
}

fn for_nobody_else(pd: &ProtectionDomain, text: &'static [u8]) {
    let _ = pd.register_in::<LocalRead, _>(text);
}

fn pool(pd: &ProtectionDomain, text: &'static mut [u8]) {
    let _ = pd.create_pool_in(text, 64);
}
