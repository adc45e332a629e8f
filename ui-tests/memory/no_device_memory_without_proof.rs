// Proves R18.14: device memory is allocated where the device said that it has some.
// Enforced by `Can<DeviceMemory>`.
use proverbs::device::{Can, Timestamps};
use proverbs::prelude::*;

fn without(context: &Context) {
    let _ = context.alloc_dm(4096, 0);
}

fn other(context: &Context, can: &Can<Timestamps>) {
    let _ = context.alloc_dm(can, 4096, 0);
}

fn main() {}
