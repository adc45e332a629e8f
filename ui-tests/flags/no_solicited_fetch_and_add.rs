// Proves R2.3, ibv_post_send(3): no solicited fetch and add.
// Enforced by `SolicitedOp`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, cell: RemoteCell) {
    qp.post_send(wr::FetchAndAdd::new(buf, cell, 1).solicited()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, cell: RemoteCell) {
    post_send!(qp, [wr::FetchAndAdd::new(buf, cell, 1).solicited()]).unwrap();
}

fn main() {}
