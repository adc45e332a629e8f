// R2.3, ibv_post_send(3): no solicited cmp and swp.
// Enforced by `SolicitedOp`.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, cell: RemoteCell) {
    qp.post_send(CmpAndSwp::new(buf, cell, CompareSwap { compare: 0, swap: 1 }).solicited())
        .unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, cell: RemoteCell) {
    post_send!(qp, [CmpAndSwp::new(buf, cell, CompareSwap { compare: 0, swap: 1 }).solicited()])
        .unwrap();
}

fn main() {}
