// Proves R19.5: of a window that came back nobody knows yet what its work request did.
// Enforced by `WindowEntry`, which is no window.
use proverbs::memory::{WindowEntry, Windowed};
use proverbs::prelude::*;

fn bind(window: WindowEntry, region: &MemoryRegion<Windowed<LocalWrite>>) {
    let _ = wr::BindMw::<RemoteWrite>::new(window, region, 0..64);
}

fn invalidate(window: WindowEntry) {
    let _ = wr::LocalInv::new(window);
}

fn main() {}
