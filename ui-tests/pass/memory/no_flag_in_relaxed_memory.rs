// R18.41, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::ext::windows::Windowed;
use proverbs::memory::Relaxed;
use proverbs::prelude::*;

fn poll(flag: &MemoryRegion<RemoteWrite>) {
    let _ = flag.cell(0);
}

fn keys(bulk: &MemoryRegion<Relaxed<RemoteAll>>) -> RemoteSlice<RemoteWrite> {
    let all: RemoteSlice<RemoteAll> = bulk.remote();
    let _ = (all.write(), all.read(), all.atomic(0));
    bulk.export()
}

fn register(pd: &ProtectionDomain) {
    let _ = pd.register::<Windowed<Relaxed<RemoteWrite>>>(64);
    let _ = pd.region::<RemoteAll>().relaxed_ordering().create(64);
}

pub fn main() {
    let _ = (poll, keys, register);
}
