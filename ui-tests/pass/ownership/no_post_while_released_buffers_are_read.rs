// R10.7, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Asked { signaling: Selective } }

fn between(qp: &mut QueuePair<Rc, Rts, Asked>, done: Completion<'_, Buf>, buf: Buf) {
    if let Ok(completed) = qp.complete(done) {
        completed.released.for_each(drop);
    }
    qp.post_send(wr::Send::new(buf)).unwrap();
}
