// Proves R18.44, R6.3: opaque memory has no copies, cells or slices, and its rights do not change.
// Enforced by `Memory`, `HasPieces`, `HasSources` and `RegistersAs`.
use proverbs::memory::{Opaque, ReadOnly};
use proverbs::prelude::*;
use std::ptr::NonNull;

type Region = MemoryRegion<RemoteRead, Opaque<Vec<u8>>>;

fn bytes(region: &Region, out: &mut [u8]) {
    let _ = region.read_at(0, out);
    let _ = region.write_at(0, b"new");
    let _ = region.cell(0);
}

fn slices(region: &Region) {
    let _ = &region[..4];
    let _ = &region.piece(0, 4).unwrap()[..];
}

fn other_rights(region: Region) {
    let _ = region.rereg_access::<RemoteWrite>();
}

fn either_way(region: &Region, fixed: &MemoryRegion<RemoteRead, Opaque<(), ReadOnly>>) {
    let _ = region.source(0, 4);
    let _ = fixed.piece(0, 4);
}

fn register(pd: &ProtectionDomain, base: NonNull<u8>) {
    let _ = unsafe { pd.region::<RemoteWrite>().opaque_read_only(base, 4, ()) };
}

fn main() {}
