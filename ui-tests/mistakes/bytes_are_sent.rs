// A mistake: the program sends a byte string, which no device has registered.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(b"hello"))
}

fn main() {}
