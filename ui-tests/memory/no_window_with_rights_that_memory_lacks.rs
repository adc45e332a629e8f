// Proves R1.7, ibv_bind_mw(3): a window to write needs memory that can be written.
// Enforced by `RegistersAs` and `Remote`.
use proverbs::{ext::windows::{MemoryWindow, Windowed}, memory::{ExternalMemory, Private, ReadOnly}};
use proverbs::prelude::*;

type Fixed = ExternalMemory<(), Private, ReadOnly>;

fn to_write(window: MemoryWindow, region: &MemoryRegion<Windowed<RemoteRead>, Fixed>) {
    let _ = ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64);
}

fn for_nobody(window: MemoryWindow, region: &MemoryRegion<Windowed<LocalWrite>>) {
    let _ = ext::windows::BindMw::<LocalWrite>::new(window, region, 0..64);
}

fn main() {}
