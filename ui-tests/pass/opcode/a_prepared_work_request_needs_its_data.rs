// R2.7, R2.10, R19.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn with_a_buffer(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn short_enough(qp: &mut QueuePair<Rc, Rts>) {
    let mut send = wr::Send::inline(&[0; 64]).prepare();
    qp.post_prepared_inline(&mut send).unwrap();
}

fn a_word_is_said_often() {
    let _ = wr::Send::inline(b"done").prepare();
    let _ = wr::Send::new(wr::Placeholder).prepare();
}
