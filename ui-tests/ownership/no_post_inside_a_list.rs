// R9.1, ibv_post_send(3): no post inside a list.
// Enforced by the borrow of `SendPost`.
use proverbs::*;

fn nested(qp: &mut QueuePair<Rc, Rts>, first: Buf, second: Buf) {
    post_send!(
        qp,
        [Send::new(first), {
            qp.post_send(Send::new(second)).unwrap();
            Send::new(Empty)
        },]
    )
    .unwrap();
}

fn main() {}
