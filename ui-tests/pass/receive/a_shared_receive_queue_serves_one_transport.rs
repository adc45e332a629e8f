// R5.8, R7.3, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Shared { receive: SharedRq } }

fn create(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Rc>) {
    pd.create_qp::<Rc, Shared>(cq, cq, Depth::on_srq(16, srq)).unwrap();
}
