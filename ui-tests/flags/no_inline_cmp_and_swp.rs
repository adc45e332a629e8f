// Proves R2.6, ibv_post_send(3): no inline cmp and swp.
// Enforced by `InlineOp`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: [u8; 8], cell: RemoteCell) {
    qp.post_send(wr::CmpAndSwp::inline(&bytes, cell, wr::CompareSwap { compare: 0, swap: 1 }))
        .unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: [u8; 8], cell: RemoteCell) {
    post_send!(qp, [wr::CmpAndSwp::inline(&bytes, cell, wr::CompareSwap { compare: 0, swap: 1 })])
        .unwrap();
}

fn of_run_time_length(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8], cell: RemoteCell) {
    qp.post_send(wr::CmpAndSwp::inline_slice(bytes, cell, wr::CompareSwap { compare: 0, swap: 1 }))
        .unwrap();
}

fn of_several(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8], cell: RemoteCell) {
    let swap = wr::CompareSwap { compare: 0, swap: 1 };
    qp.post_send(wr::CmpAndSwp::inline_list([bytes, b"more"], cell, swap)).unwrap();
}

fn main() {}
