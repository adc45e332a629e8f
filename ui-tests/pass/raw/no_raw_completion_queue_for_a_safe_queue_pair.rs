// R11.1, ibv_create_qp(3): the legal twin of ui-tests/raw/no_raw_completion_queue_for_a_safe_queue_pair.rs.
use proverbs::prelude::*;

fn create(pd: &ProtectionDomain, cq: &CompletionQueue<Buf>, depth: Depth) {
    pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth).unwrap();
}
