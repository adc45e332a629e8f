// Proves R2.3, ibv_post_send(3): no solicited cmp and swp.
// Enforced by `SolicitedOp`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, cell: RemoteCell) {
    qp.post_send(
        wr::CmpAndSwp::new(buf, cell, wr::CompareSwap { compare: 0, swap: 1 }).solicited(),
    )
    .unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, cell: RemoteCell) {
    post_send!(
        qp,
        [wr::CmpAndSwp::new(buf, cell, wr::CompareSwap { compare: 0, swap: 1 }).solicited()]
    )
    .unwrap();
}

fn main() {}
