// R7.1, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::raw::ibv_qp;
use std::ptr::NonNull;

profile! { Mine { receive: OwnRq } }

unsafe fn foreign(pd: &ProtectionDomain, qp: NonNull<ibv_qp>, cq: &CompletionQueue, depth: Depth) {
    // SAFETY: never called.
    let _ = unsafe { pd.qp_from_raw::<Rc, Rts, Mine>(qp, cq, cq, depth) };
}
