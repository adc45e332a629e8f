// Proves R15.2, ibv_wr_post(3): the operations of a foreign queue pair are not known.
// Enforced by `UsesPostSend`.
use std::ptr::NonNull;

use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};
use proverbs::raw::ibv_qp;

profile! { Direct { posting: ExtendedPosting } }

fn take(pd: &ProtectionDomain, qp: NonNull<ibv_qp>, cq: &CompletionQueue, depth: Depth) {
    let _qp = unsafe { pd.qp_from_raw::<Rc, Rts, Direct>(qp, cq, cq, depth) };
}

fn main() {}
