// A mistake: the program posts a receive on a queue pair whose receives come from a shared queue.
use proverbs::prelude::*;

profile! { Shared { receive: SharedRq } }

fn receive(qp: &mut QueuePair<Rc, Rts, Shared>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_recv(wr::Recv::new(buf))
}

fn main() {}
