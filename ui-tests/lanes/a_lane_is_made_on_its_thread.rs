// Proves R17.8, ibv_alloc_td(3): a lane does not leave its thread, in an order of objects either.
// Enforced by the absence of `Send`.
use proverbs::prelude::*;

use proverbs::device::Lane;

fn elsewhere(lane: Lane, cq: CompletionQueue<Buf, InLane>) {
    std::thread::spawn(move || drop((lane, cq)));
}

fn main() {}
