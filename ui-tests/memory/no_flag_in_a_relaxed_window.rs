// Proves R18.41, ibv_bind_mw(3): where writes arrive in any order, a window grants no atomics.
// Enforced by `BindsTo`.
use proverbs::memory::{MemoryWindow, Relaxed, Windowed};
use proverbs::prelude::*;

type Bulk = MemoryRegion<Windowed<Relaxed<LocalWrite>>>;

fn to_count(window: MemoryWindow, region: &Bulk) {
    let _ = wr::BindMw::<RemoteAtomic>::new(window, region, 0..64);
}

fn for_all(window: MemoryWindow, region: &Bulk) {
    let _ = wr::BindMw::<RemoteAll>::new(window, region, 0..64);
}

fn in_order(window: MemoryWindow, region: &Bulk) {
    let _ = wr::BindMw::<RemoteWrite>::new(window, region, 0..64);
}

fn main() {}
