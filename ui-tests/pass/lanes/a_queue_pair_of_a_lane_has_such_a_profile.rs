// R17.8, ibv_alloc_parent_domain(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Fast { threads: InLane } }

fn stays(lane: &proverbs::device::Lane, cq: &CompletionQueue<Buf, InLane>) {
    let depth = Depth { send: 4, recv: 4 };
    let _ = lane.create_qp::<Rc, Fast>(cq, cq, depth);
}
