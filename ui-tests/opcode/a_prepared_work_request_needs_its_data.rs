// R2.7, R2.10, ibv_post_send(3): what is prepared without data is posted with some.
// Enforced by `Data<E>` and `Fits<M, I>`.
use proverbs::prelude::*;

fn without_a_buffer(qp: &mut QueuePair<Rc, Rts>) {
    qp.post_send(wr::Send::new(wr::Later)).unwrap();
}

fn too_long(qp: &mut QueuePair<Rc, Rts>) {
    let mut send = wr::Send::inline(&[0; 100]).prepare();
    qp.post_prepared_inline(&mut send).unwrap();
}

fn main() {}
