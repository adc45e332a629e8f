// R18.13, ibv_reg_dmabuf_mr(3), ibv_alloc_dm(3): the legal twin of the test of this name.
use proverbs::ext::device_memory::{Dm, DmaBuf};
use proverbs::memory::Mapping;
use proverbs::prelude::*;

fn bytes(own: &MemoryRegion<RemoteAll, Dm>, out: &mut [u8]) {
    let _ = own.memcpy_from_dm(0, out);
    let _ = own.memcpy_to_dm(0, b"new!");
}

fn slice(gpu: &MemoryRegion<RemoteAll, DmaBuf>) {
    let _ = (gpu.piece(0, 4), gpu.remote().slice(0, 4), gpu.remote().atomic(0));
}

fn pools(pd: &ProtectionDomain, gpu: DmaBuf, own: Dm, memory: Mapping) {
    let _ = pd.register_dmabuf::<RemoteWrite>(gpu);
    let _ = pd.register_dm::<RemoteWrite>(own);
    let _ = pd.pool(4096).create_in(memory);
}
