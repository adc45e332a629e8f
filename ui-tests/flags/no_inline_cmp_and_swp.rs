// R2.6, ibv_post_send(3): no inline cmp and swp.
// Enforced by `InlineOp`.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: [u8; 8], cell: RemoteCell) {
    qp.post_send(CmpAndSwp::inline(&bytes, cell, CompareSwap { compare: 0, swap: 1 })).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: [u8; 8], cell: RemoteCell) {
    post_send!(qp, [CmpAndSwp::inline(&bytes, cell, CompareSwap { compare: 0, swap: 1 })]).unwrap();
}

fn of_run_time_length(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8], cell: RemoteCell) {
    qp.post_send(CmpAndSwp::inline_slice(bytes, cell, CompareSwap { compare: 0, swap: 1 }))
        .unwrap();
}

fn main() {}
