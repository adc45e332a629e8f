// Proves R7.1, ibv_create_qp(3): a foreign queue pair has its own receive queue.
// Enforced by `UsesOwnQueue`.
use proverbs::prelude::*;
use proverbs::raw::ibv_qp;
use std::ptr::NonNull;

profile! { Mine { receive: SharedRq } }

unsafe fn foreign(pd: &ProtectionDomain, qp: NonNull<ibv_qp>, cq: &CompletionQueue, depth: Depth) {
    // SAFETY: never called.
    let _ = unsafe { pd.qp_from_raw::<Rc, Rts, Mine>(qp, cq, cq, depth) };
}

fn main() {}
