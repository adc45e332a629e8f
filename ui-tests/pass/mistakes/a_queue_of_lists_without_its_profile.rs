// The legal twin of the mistake of this name.
use proverbs::prelude::*;

profile! { Wide { max_send_sge: 2, entry: BufList } }

fn send(qp: &mut QueuePair<Rc, Rts, Wide>, head: Buf, body: Buf) -> Result<(), PostError<BufList>> {
    qp.post_send(wr::Send::new([head, body]))
}
