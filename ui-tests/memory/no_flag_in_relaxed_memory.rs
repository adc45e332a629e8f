// Proves R18.41: where writes arrive in any order, no flag tells that data has arrived.
// Enforced by `Ordered` and `Bulk`.
use proverbs::memory::Relaxed;
use proverbs::prelude::*;

fn poll(bulk: &MemoryRegion<Relaxed<RemoteWrite>>) {
    let _ = bulk.cell(0);
}

fn count(bulk: &MemoryRegion<Relaxed<RemoteReadWrite>>) {
    let _ = bulk.remote().atomic(0);
}

fn strict(bulk: &MemoryRegion<Relaxed<RemoteWrite>>) -> RemoteSlice<RemoteWrite> {
    bulk.export()
}

fn register(pd: &ProtectionDomain) {
    let _ = pd.register::<Relaxed<RemoteAll>>(64);
}

fn main() {}
