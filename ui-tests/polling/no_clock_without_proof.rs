// Proves R21.2, ibv_query_rt_values_ex(3): the clock of a device is read where it has one.
// Enforced by `Can<Timestamps>`.
use proverbs::device::{Can, DeviceMemory};
use proverbs::prelude::*;

fn without(context: &Context) {
    let _ = context.clock_now();
}

fn other(context: &Context, can: &Can<DeviceMemory>) {
    let _ = context.clock_now(can);
}

fn main() {}
