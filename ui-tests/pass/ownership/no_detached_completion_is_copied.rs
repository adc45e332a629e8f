// R10.7, ibv_poll_cq(3): the legal twin of the test of this name.

use proverbs::completion::DetachedCompletion;
use proverbs::prelude::*;

profile! { Stream { signaling: Selective } }

fn twice(qp: &mut QueuePair<Rc, Rts, Stream>, completions: [DetachedCompletion; 2]) {
    let [first, second] = completions;
    let _ = qp.redeem(first);
    let _ = qp.redeem(second);
}
