// Proves R27.3: a completion does not cover earlier work requests.
// Enforced by `TellsOfEach`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { It { posting: ExtendedPosting<Srd>, signaling: Selective } }

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_qp::<Srd, It>(cq, cq, depth);
}

fn main() {}
