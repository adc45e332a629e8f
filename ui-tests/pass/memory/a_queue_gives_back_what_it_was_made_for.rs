// R11.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Mixed { entry: AnyBuf } }

fn method(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: SharedBuf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: SharedBuf) {
    post_send!(qp, [wr::Send::new(buf)]).unwrap();
}
