// Proves R3.1, ibv_post_recv(3): a receive has at most max recv sge buffers.
// Enforced by `Sges<N>`.
use proverbs::post::RecvList;
use proverbs::prelude::*;

profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList } }

fn method(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 3]) {
    qp.post_recv(wr::Recv::new(bufs)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 3]) {
    post_recv!(qp, [wr::Recv::new(bufs)]).unwrap();
}

fn pushed(list: &mut RecvList<'_, Rc, Lists, 4>, bufs: [Buf; 3]) {
    list.push(wr::Recv::new(bufs)).unwrap();
}

fn extended(list: &mut RecvList<'_, Rc, Lists, 4>, lists: Vec<[Buf; 3]>) {
    list.extend(lists.into_iter().map(wr::Recv::new)).unwrap();
}

fn main() {}
