// Proves R9.1, ibv_post_send(3): no post inside a list.
// Enforced by the borrow of `SendPost`.
use proverbs::prelude::*;

fn nested(qp: &mut QueuePair<Rc, Rts>, first: Buf, second: Buf) {
    post_send!(
        qp,
        [wr::Send::new(first), {
            qp.post_send(wr::Send::new(second)).unwrap();
            wr::Send::new(wr::Empty)
        },]
    )
    .unwrap();
}

fn main() {}
