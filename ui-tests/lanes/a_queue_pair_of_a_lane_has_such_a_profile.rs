// Proves R17.8, ibv_alloc_parent_domain(3): the profile says that a queue pair stays on its thread.
// Enforced by `Threads` of the profile.
use proverbs::prelude::*;

fn movable(lane: &proverbs::device::Lane, cq: &CompletionQueue<Buf, InLane>) {
    let depth = Depth { send: 4, recv: 4 };
    let _ = lane.create_qp::<Rc, DefaultProfile>(cq, cq, depth);
}

fn main() {}
