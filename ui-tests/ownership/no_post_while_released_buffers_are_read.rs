// Proves R10.7, ibv_post_send(3): no post while released buffers are read.
// Enforced by the borrow of `Completed`.
use proverbs::prelude::*;

profile! { Asked { signaling: Selective } }

fn between(qp: &mut QueuePair<Rc, Rts, Asked>, done: Completion<'_, Buf>, buf: Buf) {
    if let Ok(completed) = qp.complete(done) {
        qp.post_send(wr::Send::new(buf)).unwrap();
        completed.released.for_each(drop);
    }
}

fn main() {}
