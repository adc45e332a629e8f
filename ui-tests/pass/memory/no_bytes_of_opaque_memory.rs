// R18.44, R6.3: the legal twin of the test of this name.
use proverbs::memory::{Opaque, ReadOnly};
use proverbs::prelude::*;
use std::ptr::NonNull;

type Region = MemoryRegion<RemoteRead, Opaque<Vec<u8>>>;

fn bytes(region: &MemoryRegion<RemoteRead, Vec<u8>>, out: &mut [u8]) {
    let _ = region.read_at(0, out);
    let _ = region.write_at(0, b"new");
    let _ = region.cell(0);
}

fn pointers(region: &Region) {
    let _: *mut u8 = region.as_ptr();
    let _: *mut u8 = region.piece(0, 4).unwrap().as_ptr();
}

fn other_rights(region: MemoryRegion<RemoteRead, Vec<u8>>) {
    let _ = region.rereg_access::<RemoteWrite>();
}

fn either_way(region: &Region, fixed: &MemoryRegion<RemoteRead, Opaque<(), ReadOnly>>) {
    let _ = region.piece(0, 4);
    let _ = fixed.source(0, 4);
}

/// # Safety
/// The bytes stay mapped, and nothing else uses them.
unsafe fn register(pd: &ProtectionDomain, base: NonNull<u8>) {
    // SAFETY: this function's contract is the same.
    let _ = unsafe { pd.region::<RemoteRead>().opaque_read_only(base, 4, ()) };
}
