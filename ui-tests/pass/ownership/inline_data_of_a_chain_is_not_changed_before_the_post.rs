// R2.9: the legal twin of the test of this name.
use proverbs::prelude::*;

fn chain(qp: &mut QueuePair<Rc, Rts>, mut bytes: [u8; 8]) {
    bytes[0] = 1;
    post_send!(qp, [wr::Send::inline(&bytes), wr::Send::inline(&[0; 8])]).unwrap();
}

profile! { Framed { max_send_sge: 2 } }

fn one_of_several(qp: &mut QueuePair<Rc, Rts, Framed>, mut bytes: [u8; 8]) {
    bytes[0] = 1;
    post_send!(qp, [wr::Send::inline_list([b"header", &bytes]), wr::Send::inline(&[0; 8])])
        .unwrap();
}
