// Proves R3.1, ibv_post_send(3): every way to post asks for max send sge.
// Enforced by `Sges<N>`.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList, signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 3]) {
    let _ = qp.post_send_unsignaled(wr::Send::new(bufs));
}

fn pushed(list: &mut SendList<'_, Rc, Lists, 4>, bufs: [Buf; 3]) {
    list.push(wr::Send::new(bufs)).unwrap();
}

fn extended(list: &mut SendList<'_, Rc, Lists, 4>, lists: Vec<[Buf; 3]>) {
    list.extend(lists.into_iter().map(wr::Send::new)).unwrap();
}

fn main() {}
