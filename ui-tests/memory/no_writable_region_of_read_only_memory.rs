// Proves R6.3: LOCAL_WRITE needs writable memory, and every right to write includes it.
// Enforced by `Allows`.
use proverbs::memory::{ReadOnly, SharedMapping, Windowed};
use proverbs::prelude::*;

fn for_writers(pd: &ProtectionDomain, file: SharedMapping<ReadOnly>) {
    let _ = pd.register_in::<RemoteWrite, _>(file);
}

fn for_this_program(pd: &ProtectionDomain, text: &'static [u8]) {
    let _ = pd.register_in::<LocalWrite, _>(text);
}

fn for_atomics(pd: &ProtectionDomain, table: std::sync::Arc<[u64]>) {
    let _ = pd.register_in::<RemoteAtomic, _>(table);
}

fn for_windows(pd: &ProtectionDomain, text: &'static [u8]) {
    let _ = pd.register_in::<Windowed<RemoteRead>, _>(text);
}

fn pool(pd: &ProtectionDomain, text: &'static [u8]) {
    let _ = pd.create_pool_in(text, 64);
}

fn main() {}
