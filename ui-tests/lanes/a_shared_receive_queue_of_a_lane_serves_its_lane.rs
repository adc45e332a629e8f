// Proves R17.9: a shared receive queue of a lane serves no queue pair of another thread.
// Enforced by `InLane` in the queue's type.
use proverbs::prelude::*;

profile! { Served { receive: SharedRq } }

fn mixed(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    srq: &SharedReceiveQueue<Rc, Buf, proverbs::qp::Max<1>, InLane>,
) {
    let _ = pd.create_qp::<Rc, Served>(cq, cq, Depth::on_srq(4, srq));
}

fn main() {}
