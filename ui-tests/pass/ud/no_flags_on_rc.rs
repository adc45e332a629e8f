// R23.6, ibv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::QpCreateFlags;

profile! { Served { receive: SharedRq } }

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth, flags: QpCreateFlags) {
    pd.create_qp::<Ud, DefaultProfile>(cq, cq, depth.flags(flags)).unwrap();
}

fn served(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    srq: &SharedReceiveQueue<Ud>,
    flags: QpCreateFlags,
) {
    pd.create_qp::<Ud, Served>(cq, cq, Depth::on_srq(8, srq).flags(flags)).unwrap();
}
