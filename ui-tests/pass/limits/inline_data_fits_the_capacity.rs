// R2.7, ibv_post_send(3): the legal twin of ui-tests/limits/inline_data_fits_the_capacity.rs.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 64]) {
    qp.post_send(Send::inline(bytes)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 64]) {
    post_send!(qp, [Send::inline(bytes)]).unwrap();
}
