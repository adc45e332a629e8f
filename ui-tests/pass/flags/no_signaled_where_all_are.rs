// R2.4, ibv_post_send(3): the legal twin of ui-tests/flags/no_signaled_where_all_are.rs.
use proverbs::prelude::*;

profile! { Asked { signaling: Selective } }

fn method(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    qp.post_send(wr::Send::new(buf).signaled()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf).signaled()]).unwrap();
}
