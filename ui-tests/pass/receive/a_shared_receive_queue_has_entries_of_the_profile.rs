// R11.1, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Served { receive: SharedRq, entry: BufList } }

fn create(
    pd: &ProtectionDomain,
    cq: &CompletionQueue<BufList>,
    srq: &SharedReceiveQueue<Rc, BufList>,
) {
    pd.create_qp::<Rc, Served>(cq, cq, Depth::on_srq(16, srq)).unwrap();
}
