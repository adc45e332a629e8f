// R15.2, ibv_wr_post(3): the legal twin of the test of this name.
use std::ptr::NonNull;

use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;
use proverbs::raw::ibv_qp;

profile! { Direct { posting: ExtendedPosting } }

fn take(pd: &ProtectionDomain, qp: NonNull<ibv_qp>, cq: &CompletionQueue, depth: Depth) {
    // SAFETY: never called.
    let _qp = unsafe { pd.qp_from_raw::<Rc, Rts, DefaultProfile>(qp, cq, cq, depth) };
    let _own = pd.create_qp::<Rc, Direct>(cq, cq, depth);
}
