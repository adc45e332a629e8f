// Proves R18.13: a device's memory has no copies, cells or buffers.
// Enforced by `Memory`.
use proverbs::ext::device_memory::{Dm, DmaBuf};
use proverbs::prelude::*;

fn bytes(gpu: &MemoryRegion<RemoteAll, DmaBuf>, out: &mut [u8]) {
    let _ = gpu.read_at(0, out);
    let _ = gpu.write_at(0, b"new");
    let _ = gpu.cell(0);
}

fn slice(gpu: &MemoryRegion<RemoteAll, DmaBuf>) {
    let _ = &gpu[..4];
}

fn pools(pd: &ProtectionDomain, gpu: DmaBuf, own: Dm) {
    let _ = pd.pool(4096).create_in(gpu);
    let _ = pd.pool(4096).create_in(own);
}

fn main() {}
