// R3.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList } }

fn slots(list: &mut SendList<Rc, Lists, 2>, bufs: [Buf; 2]) {
    list.push(wr::Send::new(bufs)).unwrap();
}

fn extended(list: &mut SendList<Rc, Lists, 2>, lists: Vec<[Buf; 2]>) {
    list.extend(lists.into_iter().map(wr::Send::new)).unwrap();
}
