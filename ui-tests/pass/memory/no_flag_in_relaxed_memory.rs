// R18.41, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::memory::Relaxed;
use proverbs::prelude::*;

fn poll(flag: &MemoryRegion<RemoteWrite>) {
    let _ = flag.cell(0);
}

fn count(counters: &MemoryRegion<RemoteAtomic>) {
    let _ = counters.remote().atomic(0);
}

fn relaxed(bulk: &MemoryRegion<Relaxed<RemoteReadWrite>>) -> RemoteSlice<Relaxed<RemoteWrite>> {
    let _ = (bulk.remote().write(), bulk.remote().read());
    bulk.export()
}

fn register(pd: &ProtectionDomain) {
    let _ = pd.register::<Relaxed<RemoteReadWrite>>(64);
}

pub fn main() {
    let _ = (poll, count, relaxed, register);
}
