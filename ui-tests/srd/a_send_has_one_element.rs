// Proves R27.6, efadv_create_qp_ex(3): work requests of SRD have one element.
// Enforced by `OneElement`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { It { posting: ExtendedPosting<Srd>, max_send_sge: 2 } }

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_qp::<Srd, It>(cq, cq, depth);
}

fn main() {}
