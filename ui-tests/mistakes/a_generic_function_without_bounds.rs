// A mistake: the program posts in a function that is generic over the transport, and bounds nothing.
use proverbs::prelude::*;
use proverbs::transport::Transport;

fn send<T: Transport>(qp: &mut QueuePair<T, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(buf))
}

fn main() {}
