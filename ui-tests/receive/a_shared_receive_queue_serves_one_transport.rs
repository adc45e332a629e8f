// Proves R5.8, R7.3, ibv_create_qp(3): a shared receive queue serves one transport.
// Enforced by the type of `SharedReceiveQueue`.
use proverbs::prelude::*;

profile! { Shared { receive: SharedRq } }

fn create(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Ud>) {
    pd.create_qp::<Rc, Shared>(cq, cq, Depth::on_srq(16, srq)).unwrap();
}

fn main() {}
