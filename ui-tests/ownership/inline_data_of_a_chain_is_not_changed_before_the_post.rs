// Proves R2.9, ibv_post_send(3): inline data is copied by the post, not before (`Pending`).
// Enforced by the borrow of `Inline`, which lasts until the post.
use proverbs::prelude::*;

fn chain(qp: &mut QueuePair<Rc, Rts>, mut bytes: [u8; 8]) {
    post_send!(
        qp,
        [wr::Send::inline(&bytes), {
            bytes[0] = 1;
            wr::Send::inline(&[0; 8])
        },]
    )
    .unwrap();
}

profile! { Framed { max_send_sge: 2 } }

fn one_of_several(qp: &mut QueuePair<Rc, Rts, Framed>, mut bytes: [u8; 8]) {
    post_send!(
        qp,
        [wr::Send::inline_list([b"header", &bytes]), {
            bytes[0] = 1;
            wr::Send::inline(&[0; 8])
        },]
    )
    .unwrap();
}

fn main() {}
