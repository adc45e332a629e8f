// Proves R18.41: where writes arrive in any order, no flag tells that data has arrived.
// Enforced by `Ordered` and `Bulk`.
use proverbs::{ext::windows::Windowed, memory::Relaxed};
use proverbs::prelude::*;

fn poll(bulk: &MemoryRegion<Relaxed<RemoteWrite>>) {
    let _ = bulk.cell(0);
}

fn register(pd: &ProtectionDomain) {
    let _ = pd.register::<Relaxed<Windowed<RemoteWrite>>>(64);
}

fn main() {}
