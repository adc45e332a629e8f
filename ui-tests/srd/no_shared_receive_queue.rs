// Proves R27.2, efadv_create_qp_ex(3): no shared receive queue.
// Enforced by `UsesOwnQueue` and `SharesReceives`.
use proverbs::prelude::*;

profile! { It { posting: ExtendedPosting<Srd>, receive: SharedRq } }

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_srd_qp::<It>(cq, cq, depth);
}

fn shared(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Srd>) {
    let _ = pd.create_qp_on_srq::<Srd, It, _>(cq, cq, srq, 8);
}

fn main() {}
