// Proves R6.15, ibv_rereg_mr(3): a region that failed to re-register is deregistered.
// Enforced by `UnusableRegion`, moves and `RegistersAs`.
use proverbs::memory::{Pages, ReadOnly, SharedMapping, UnusableRegion};
use proverbs::prelude::*;

fn failed(region: &UnusableRegion<Pages>) {
    let _ = region.piece(0, 8);
}

fn changed(region: MemoryRegion<RemoteReadWrite>) {
    let _ = region.rereg_access::<RemoteRead>();
    let _ = region.remote();
}

fn read_only(region: MemoryRegion<RemoteRead, SharedMapping<ReadOnly>>) {
    let _ = region.rereg_access::<RemoteWrite>();
}

fn main() {}
