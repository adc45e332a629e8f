// R18.41, ibv_bind_mw(3): the legal twin of the test of this name.
use proverbs::memory::{MemoryWindow, Relaxed, Windowed};
use proverbs::prelude::*;

type Bulk = MemoryRegion<Windowed<Relaxed<LocalWrite>>>;
type Flags = MemoryRegion<Windowed<LocalWrite>>;

fn to_count(window: MemoryWindow, region: &Flags) {
    let _ = wr::BindMw::<RemoteAtomic>::new(window, region, 0..64);
}

fn for_all(window: MemoryWindow, region: &Flags) {
    let _ = wr::BindMw::<RemoteAll>::new(window, region, 0..64);
}

fn in_any_order(window: MemoryWindow, region: &Bulk) {
    let _ = wr::BindMw::<Relaxed<RemoteWrite>>::new(window, region, 0..64);
}

pub fn main() {
    let _ = (to_count, for_all, in_any_order);
}
