// Proves R6.3: LOCAL_WRITE needs writable memory, and every right to write includes it.
// Enforced by `RegistersAs`.
use proverbs::{ext::windows::Windowed, memory::{ReadOnly, SharedMapping}};
use proverbs::prelude::*;

fn for_writers(pd: &ProtectionDomain, file: SharedMapping<ReadOnly>) {
    let _ = pd.region::<RemoteWrite>().create_in(file);
}

fn for_this_program(pd: &ProtectionDomain, text: &'static [u8]) {
    let _ = pd.region::<LocalWrite>().create_in(text);
}

fn for_atomics(pd: &ProtectionDomain, table: std::sync::Arc<[u64]>) {
    let _ = pd.region::<RemoteAtomic>().create_in(table);
}

fn for_windows(pd: &ProtectionDomain, text: &'static [u8]) {
    let _ = pd.region::<Windowed<RemoteRead>>().create_in(text);
}

fn pool(pd: &ProtectionDomain, text: &'static [u8]) {
    let _ = pd.pool(64).create_in(text);
}

fn main() {}
