// Proves R4.5, ibv_post_send(3): the result of an atomic needs LOCAL_WRITE (`AtomicSink`).
// Enforced by `AtomicSink`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, shared: SharedBuf, cell: RemoteCell) {
    qp.post_send(wr::FetchAndAdd::new(shared, cell, 1)).unwrap();
}

fn main() {}
