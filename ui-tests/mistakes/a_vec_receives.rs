// A mistake: the program posts a `Vec` as a receive.
use proverbs::prelude::*;

fn receive(qp: &mut QueuePair<Rc, Rts>) -> Result<(), PostError<Buf>> {
    qp.post_recv(wr::Recv::new(vec![0; 64]))
}

fn main() {}
