// R1.7, ibv_bind_mw(3): the legal twin of the test of this name.
use proverbs::ext::windows::{MemoryWindow, Windowed};
use proverbs::prelude::*;

fn bind(window: MemoryWindow, region: &MemoryRegion<Windowed<LocalWrite>>) {
    let _ = ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64);
}

pub fn main() {
    let _ = bind;
}
