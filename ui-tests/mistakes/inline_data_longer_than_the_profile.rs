// A mistake: the program sends more bytes inline than the default profile has room for.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, page: &[u8; 4096]) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::inline(page))
}

fn main() {}
