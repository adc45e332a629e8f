// Proves R2.6, ibv_post_send(3): no inline rdma read.
// Enforced by `InlineOp`.
use proverbs::memory::ToRead;
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: [u8; 8], at: RemoteSpan<ToRead>) {
    qp.post_send(wr::RdmaRead::inline(&bytes, at)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: [u8; 8], at: RemoteSpan<ToRead>) {
    post_send!(qp, [wr::RdmaRead::inline(&bytes, at)]).unwrap();
}

fn of_run_time_length(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8], at: RemoteSpan<ToRead>) {
    qp.post_send(wr::RdmaRead::inline_slice(bytes, at)).unwrap();
}

fn of_several(qp: &mut QueuePair<Rc, Rts>, bytes: [u8; 8], at: RemoteSpan<ToRead>) {
    qp.post_send(wr::RdmaRead::inline_list([&bytes, b"more"], at)).unwrap();
}

fn main() {}
