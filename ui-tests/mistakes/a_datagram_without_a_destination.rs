// A mistake: the program sends on UD without naming the receiver.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Ud, Rts>) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::inline(b"hello"))
}

fn main() {}
