// R6.15, ibv_rereg_mr(3): the legal twin of the test of this name.
use proverbs::memory::{Pages, ReadOnly, SharedMapping, UnusableRegion};
use proverbs::prelude::*;

fn failed(region: UnusableRegion<Pages>) {
    let _ = region.destroy();
}

fn changed(region: MemoryRegion<RemoteReadWrite>) {
    let Ok(region) = region.rereg_access::<RemoteRead>() else { return };
    let _ = region.remote();
}

fn read_only(region: MemoryRegion<RemoteRead, SharedMapping>) {
    let _ = region.rereg_access::<RemoteWrite>();
}

fn to_be_read(region: MemoryRegion<RemoteRead>, file: SharedMapping<ReadOnly>) {
    let _ = region.rereg_memory(file);
}
