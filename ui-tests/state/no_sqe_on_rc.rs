// Proves R8.16, ibv_modify_qp(3): no sqe on rc.
// Enforced by `StopsSending`.
use proverbs::prelude::*;

fn stopped(qp: QueuePair<Rc, Rts>) {
    qp.into_sqe().unwrap();
}

fn main() {}
