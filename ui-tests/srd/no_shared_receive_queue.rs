// Proves R27.2, efadv_create_qp_ex(3): no shared receive queue.
// Enforced by `UsesOwnQueue` and `SharesReceives`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { It { posting: ExtendedPosting<Srd>, receive: SharedRq } }

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_qp::<Srd, It>(cq, cq, depth);
}

fn shared(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Srd>) {
    let _ = pd.create_qp::<Srd, It>(cq, cq, Depth::on_srq(8, srq));
}

fn main() {}
