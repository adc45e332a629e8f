// R1.7, ibv_bind_mw(3): the legal twin of the test of this name.
use proverbs::ext::windows::{MemoryWindow, Windowed};
use proverbs::memory::{ExternalMemory, Private, ReadOnly};
use proverbs::prelude::*;

type Fixed = ExternalMemory<(), Private, ReadOnly>;

fn to_read(window: MemoryWindow, region: &MemoryRegion<Windowed<RemoteRead>, Fixed>) {
    let _ = ext::windows::BindMw::<RemoteRead>::new(window, region, 0..64);
}

fn for_peers(window: MemoryWindow, region: &MemoryRegion<Windowed<LocalWrite>>) {
    let _ = ext::windows::BindMw::<RemoteAtomic>::new(window, region, 0..64);
}

pub fn main() {
    let _ = (to_read, for_peers);
}
