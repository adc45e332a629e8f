// A mistake: the program posts two buffers in a work request of a queue of one element.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, head: Buf, body: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new([head, body]))
}

fn main() {}
