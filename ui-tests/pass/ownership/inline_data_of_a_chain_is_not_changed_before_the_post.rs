// R2.9: the legal twin of ui-tests/ownership/inline_data_of_a_chain_is_not_changed_before_the_post.rs.
use proverbs::prelude::*;

fn chain(qp: &mut QueuePair<Rc, Rts>, mut bytes: [u8; 8]) {
    bytes[0] = 1;
    post_send!(qp, [wr::Send::inline(&bytes), wr::Send::inline(&[0; 8])]).unwrap();
}
