// The legal twin of the mistake of this name.
use proverbs::prelude::*;

profile! { Wide { entry: BufList, max_send_sge: 2 } }

fn send(qp: &mut QueuePair<Rc, Rts, Wide>, head: Buf, body: Buf) -> Result<(), PostError<BufList>> {
    qp.post_send(wr::Send::new([head, body]))
}
