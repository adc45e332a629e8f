// A mistake: the program sends a `Vec` instead of a registered buffer.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>) -> Result<(), PostError<Buf>> {
    let message = vec![0; 64];
    qp.post_send(wr::Send::new(message))
}

fn main() {}
