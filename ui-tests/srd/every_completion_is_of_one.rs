// Proves R27.3: a completion says nothing of the work requests before its own.
// Enforced by `TellsOfEach`.
use proverbs::prelude::*;

profile! { It { posting: ExtendedPosting<Srd>, signaling: Selective } }

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_qp::<Srd, It>(cq, cq, depth);
}

fn main() {}
