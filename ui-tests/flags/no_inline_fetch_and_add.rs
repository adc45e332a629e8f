// Proves R2.6, ibv_post_send(3): no inline fetch and add.
// Enforced by `InlineOp`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: [u8; 8], cell: RemoteCell) {
    qp.post_send(wr::FetchAndAdd::inline(&bytes, cell, 1)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: [u8; 8], cell: RemoteCell) {
    post_send!(qp, [wr::FetchAndAdd::inline(&bytes, cell, 1)]).unwrap();
}

fn of_run_time_length(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8], cell: RemoteCell) {
    qp.post_send(wr::FetchAndAdd::inline_slice(bytes, cell, 1)).unwrap();
}

fn of_several(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8], cell: RemoteCell) {
    qp.post_send(wr::FetchAndAdd::inline_list([bytes, b"more"], cell, 1)).unwrap();
}

fn main() {}
