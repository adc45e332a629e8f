// Proves R3.1, ibv_post_send(3): a list has room for its buffers.
// Enforced by `Sges<N>`.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList } }

fn slots(list: &mut SendList<Rc, Lists, 1>, bufs: [Buf; 2]) {
    list.push(wr::Send::new(bufs)).unwrap();
}

fn extended(list: &mut SendList<Rc, Lists, 1>, lists: Vec<[Buf; 2]>) {
    list.extend(lists.into_iter().map(wr::Send::new)).unwrap();
}

fn main() {}
