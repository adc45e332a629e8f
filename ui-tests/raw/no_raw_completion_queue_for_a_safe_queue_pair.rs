// Proves R11.1, ibv_create_qp(3): no raw completion queue for a safe queue pair.
// Enforced by `Profile::Entry`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

fn create(pd: &ProtectionDomain, cq: &CompletionQueue<Raw>, depth: Depth) {
    pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth).unwrap();
}

fn main() {}
