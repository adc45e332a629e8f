// R11.1, ibv_post_send(3): the legal twin of ui-tests/macro/no_list_lends_its_unsafe.rs.
use proverbs::prelude::*;

fn made(pool: &Pool) -> Buf {
    pool.take().unwrap()
}

fn list(qp: &mut QueuePair<Rc, Rts>, pool: &Pool) {
    post_send!(qp, [wr::Send::new(made(pool))]).unwrap();
}
