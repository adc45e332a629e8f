// Proves R10.7, ibv_poll_cq(3): no detached completion is copied.
// Enforced by the absence of `Clone`.
use proverbs::completion::DetachedCompletion;
use proverbs::prelude::*;

profile! { Stream { signaling: Selective } }

fn twice(qp: &mut QueuePair<Rc, Rts, Stream>, completion: DetachedCompletion) {
    let _ = qp.redeem(completion.clone());
    let _ = qp.redeem(completion);
}

fn main() {}
