// R11.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn made(pool: &Pool) -> Buf {
    pool.take().unwrap()
}

fn list(qp: &mut QueuePair<Rc, Rts>, pool: &Pool) {
    post_send!(qp, [wr::Send::new(made(pool))]).unwrap();
}
