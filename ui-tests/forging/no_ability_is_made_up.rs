// Proves R18.26, ibv_query_device_ex(3): no proof of an ability but the device's.
// Enforced by `Can`, which only `Abilities::can` makes.
use proverbs::device::{Can, FlushGlobal, Timestamps};

fn flush(clock: Can<Timestamps>) -> Can<FlushGlobal> {
    clock
}

fn main() {}
