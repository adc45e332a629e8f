// Proves R27.2, efadv_create_qp_ex(3): SRD is posted in sessions with destinations.
// Enforced by `ForSrd`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { It { posting: ExtendedPosting } }

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_qp::<Srd, It>(cq, cq, depth);
}

fn main() {}
