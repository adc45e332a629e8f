// R2.4, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Asked { signaling: Selective } }

fn method(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    qp.post_send(wr::Send::new(buf).signaled()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf).signaled()]).unwrap();
}

fn prepared(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).signaled().prepare(), buf).unwrap();
}

fn prepared_inline(qp: &mut QueuePair<Rc, Rts, Asked>) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").signaled().prepare()).unwrap();
}
