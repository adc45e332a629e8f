// Proves R4.6, ibv_modify_qp(3): no reads without a read depth.
// Enforced by `Initiator::Depth`.
use proverbs::bounded::{RetryCount, RnrRetry, Timeout};
use proverbs::prelude::*;
use proverbs::qp::NoDepth;

fn to_rts(
    qp: QueuePair<Rc, Rtr, DefaultProfile>,
    timeout: Timeout,
    retry_cnt: RetryCount,
    sq_psn: Psn,
) {
    let (rnr_retry, optional) = (RnrRetry::Infinite, Default::default());
    let max_rd_atomic = NoDepth;
    qp.modify(RcRts { timeout, retry_cnt, rnr_retry, sq_psn, max_rd_atomic, optional }).unwrap();
}

fn main() {}
