// R3.1, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::post::RecvList;
use proverbs::prelude::*;

profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList } }

fn method(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 2]) {
    qp.post_recv(wr::Recv::new(bufs)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Lists>, bufs: [Buf; 2]) {
    post_recv!(qp, [wr::Recv::new(bufs)]).unwrap();
}

fn pushed(list: &mut RecvList<'_, Rc, Lists, 4>, bufs: [Buf; 2]) {
    list.push(wr::Recv::new(bufs)).unwrap();
}

fn extended(list: &mut RecvList<'_, Rc, Lists, 4>, lists: Vec<[Buf; 2]>) {
    list.extend(lists.into_iter().map(wr::Recv::new)).unwrap();
}
