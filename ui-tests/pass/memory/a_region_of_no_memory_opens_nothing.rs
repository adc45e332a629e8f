// R22.4, ibv_alloc_null_mr(3): the legal twin of the test of this name.
use proverbs::memory::Null;
use proverbs::prelude::*;

fn key(memory: &MemoryRegion<RemoteWrite>) {
    memory.remote();
}

fn opened(pd: &ProtectionDomain) -> MemoryRegion<LocalWrite, Null> {
    pd.alloc_null_mr().unwrap()
}

fn bytes(nothing: &MemoryRegion<LocalWrite, Null>) {
    let _ = nothing.piece(0, 4).unwrap();
}
