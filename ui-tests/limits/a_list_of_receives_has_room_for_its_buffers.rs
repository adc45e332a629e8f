// Proves R3.1, ibv_post_recv(3): a slot has room for the elements of its receive (`Fits`).
// Enforced by `Fits<Max<G>, I>` of `RecvList::push`.
use proverbs::prelude::*;

profile! { Wide { max_recv_sge: 4, entry: BufList } }

fn list(qp: &mut QueuePair<Rc, Rts, Wide>, bufs: [Buf; 3]) {
    let mut slots = RecvSlots::<4, 2>::new();
    let mut list = qp.recv_list(&mut slots);
    list.push(wr::Recv::new(bufs)).unwrap();
    list.post().unwrap();
}

fn extended(qp: &mut QueuePair<Rc, Rts, Wide>, lists: Vec<[Buf; 3]>) {
    let mut slots = RecvSlots::<4, 2>::new();
    qp.recv_list(&mut slots).extend(lists.into_iter().map(wr::Recv::new)).unwrap();
}

fn main() {}
