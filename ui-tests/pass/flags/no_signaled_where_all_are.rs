// R2.4, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Asked { signaling: Selective } }

fn method(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    qp.post_send(wr::Send::new(buf).signaled()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf).signaled()]).unwrap();
}
