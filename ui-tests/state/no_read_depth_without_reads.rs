// Proves R4.6, ibv_modify_qp(3): no read depth without reads.
// Enforced by `Initiator::Depth`.
use proverbs::bounded::{RetryCount, RnrRetry, Timeout};
use proverbs::prelude::*;

profile! { Quiet { initiator: NoReads } }

fn to_rts(qp: QueuePair<Rc, Rtr, Quiet>, timeout: Timeout, retry_cnt: RetryCount, sq_psn: Psn) {
    let (rnr_retry, optional) = (RnrRetry::Infinite, Default::default());
    let max_rd_atomic = ReadDepth::ONE;
    qp.modify(RcRts { timeout, retry_cnt, rnr_retry, sq_psn, max_rd_atomic, optional }).unwrap();
}

fn main() {}
