// Proves R5.8, R7.3, ibv_create_qp(3): a shared receive queue serves one transport.
// Enforced by the type of `SharedReceiveQueue`.
use proverbs::prelude::*;

profile! { Shared { receive: SharedRq } }

fn create(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Ud>) {
    pd.create_qp_on_srq::<Rc, Shared, _>(cq, cq, srq, 16).unwrap();
}

fn main() {}
