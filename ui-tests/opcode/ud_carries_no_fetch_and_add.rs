// Proves R1.1, ibv_post_send(3): ud carries no fetch and add.
// Enforced by `PostOn<T>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Ud, Rts>, buf: Buf, cell: RemoteCell, to: wr::Destination) {
    qp.post_send(wr::FetchAndAdd::new(buf, cell, 1).to(to)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Ud, Rts>, buf: Buf, cell: RemoteCell, to: wr::Destination) {
    post_send!(qp, [wr::FetchAndAdd::new(buf, cell, 1).to(to)]).unwrap();
}

fn main() {}
