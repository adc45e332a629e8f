// Proves R22.4, ibv_alloc_null_mr(3): a region of no memory has no key for peers, and no bytes.
// Enforced by `LocalWrite` and `Null`.
use proverbs::memory::Null;
use proverbs::prelude::*;

fn key(nothing: &MemoryRegion<LocalWrite, Null>) {
    nothing.remote();
}

fn opened(pd: &ProtectionDomain) -> MemoryRegion<RemoteWrite, Null> {
    pd.alloc_null_mr().unwrap()
}

fn bytes(nothing: &MemoryRegion<LocalWrite, Null>) {
    nothing.write_at(0, b"lost").unwrap();
}

fn main() {}
