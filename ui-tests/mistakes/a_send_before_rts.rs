// A mistake: the program sends on a queue pair that is ready to receive only.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rtr>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(buf))
}

fn main() {}
