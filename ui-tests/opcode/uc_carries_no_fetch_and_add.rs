// Proves R1.1, ibv_post_send(3): uc carries no fetch and add.
// Enforced by `PostOn<T>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Uc, Rts>, buf: Buf, cell: RemoteCell) {
    qp.post_send(wr::FetchAndAdd::new(buf, cell, 1)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Uc, Rts>, buf: Buf, cell: RemoteCell) {
    post_send!(qp, [wr::FetchAndAdd::new(buf, cell, 1)]).unwrap();
}

fn main() {}
