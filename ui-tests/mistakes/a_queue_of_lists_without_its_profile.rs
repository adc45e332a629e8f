// A mistake: the program lets the profile have two elements, but forgets that its entry is then a list.
use proverbs::prelude::*;

profile! { Wide { max_send_sge: 2 } }

fn send(
    qp: &mut QueuePair<Rc, Rts, Wide>,
    head: Buf,
    body: Buf,
) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new([head, body]))
}

fn main() {}
