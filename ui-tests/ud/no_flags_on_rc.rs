// Proves R23.6, ibv_create_qp_ex(3): a queue pair with flags is UD.
// Enforced by `TakesFlags`.
use proverbs::prelude::*;
use proverbs::qp::QpCreateFlags;

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth, flags: QpCreateFlags) {
    pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth.flags(flags)).unwrap();
}

fn main() {}
