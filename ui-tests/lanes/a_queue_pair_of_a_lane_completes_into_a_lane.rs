// Proves R17.9, ibv_create_cq_ex(3): a completion queue is polled by the thread of its queue pairs.
// Enforced by `InLane` in both types: another thread may have this queue.
use proverbs::prelude::*;

profile! { Fast { threads: InLane } }

fn mixed(lane: &proverbs::device::Lane, cq: &CompletionQueue) -> Result<(), proverbs::Error> {
    let depth = Depth { send: 4, recv: 4 };
    let _ = lane.create_qp::<Rc, Fast>(cq, cq, depth)?;
    Ok(())
}

fn main() {}
