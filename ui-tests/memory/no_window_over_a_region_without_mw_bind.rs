// Proves R1.7, ibv_bind_mw(3): a memory window is bound to a region with MW_BIND.
// Enforced by `BindsWindows`.
use proverbs::ext::windows::MemoryWindow;
use proverbs::prelude::*;

fn bind(window: MemoryWindow, region: &MemoryRegion<RemoteWrite>) {
    let _ = ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64);
}

fn main() {}
