// R19.5, ibv_bind_mw(3): the legal twin of the test of this name.
use proverbs::ext::windows::{WindowEntry, Windowed};
use proverbs::prelude::*;

fn bind(window: WindowEntry, region: &MemoryRegion<Windowed<LocalWrite>>) {
    let window = window.into_unbound().unwrap();
    let _ = ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64);
}

fn invalidate(window: WindowEntry) {
    let _ = ext::windows::LocalInv::new(window.into_bound::<RemoteWrite>().unwrap());
}
