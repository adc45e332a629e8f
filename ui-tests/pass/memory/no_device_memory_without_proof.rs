// R18.14, ibv_alloc_dm(3): the legal twin of the test of this name.
use proverbs::device::{Can, DeviceMemory};
use proverbs::prelude::*;

fn without(context: &Context) -> Option<Can<DeviceMemory>> {
    context.abilities().ok()?.can()
}

fn other(context: &Context, can: &Can<DeviceMemory>) {
    let _ = context.alloc_dm(can, 4096, 0);
}
