// Proves R19.5: the result of a window's work request is unknown until it is checked.
// Enforced by `WindowEntry`, which is not a window.
use proverbs::ext::windows::{WindowEntry, Windowed};
use proverbs::prelude::*;

fn bind(window: WindowEntry, region: &MemoryRegion<Windowed<LocalWrite>>) {
    let _ = ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64);
}

fn invalidate(window: WindowEntry) {
    let _ = ext::windows::LocalInv::new(window);
}

fn main() {}
