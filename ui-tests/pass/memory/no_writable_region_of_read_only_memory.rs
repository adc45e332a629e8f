// R6.3, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::ext::windows::Windowed;
use proverbs::memory::{LocalRead, ReadOnly, SharedMapping};
use proverbs::prelude::*;

fn for_readers(pd: &ProtectionDomain, file: SharedMapping<ReadOnly>) {
    let _ = pd.region::<RemoteRead>().create_in(file);
}

fn for_this_program(pd: &ProtectionDomain, text: &'static mut [u8]) {
    let _ = pd.region::<LocalWrite>().create_in(text);
}

fn for_atomics(pd: &ProtectionDomain, table: Vec<u64>) {
    let _ = pd.region::<RemoteAtomic>().create_in(table);
}

fn for_windows(pd: &ProtectionDomain, text: &'static mut [u8]) {
    let _ = pd.region::<Windowed<RemoteRead>>().create_in(text);
}

fn for_nobody_else(pd: &ProtectionDomain, text: &'static [u8]) {
    let _ = pd.region::<LocalRead>().create_in(text);
}

fn pool(pd: &ProtectionDomain, text: &'static mut [u8]) {
    let _ = pd.pool(64).create_in(text);
}
