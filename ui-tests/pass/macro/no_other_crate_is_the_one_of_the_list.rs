// R11.1: the legal twin of the test of this name.
use proverbs::prelude::*;

macro_rules! post_mine {
    ($($list:tt)*) => { proverbs::post_send!($($list)*) };
}

fn lists(qp: &mut QueuePair<Rc, Rts>) {
    post_mine!(qp, [wr::Send::new(wr::Empty)]).unwrap();
}
