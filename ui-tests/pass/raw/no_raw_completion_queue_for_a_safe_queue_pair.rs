// R11.1, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn create(pd: &ProtectionDomain, cq: &CompletionQueue<Buf>, depth: Depth) {
    pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth).unwrap();
}
