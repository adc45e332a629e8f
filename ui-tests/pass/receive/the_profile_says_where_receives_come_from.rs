// R7.1, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::QpCreateFlags;

profile! { Shared { receive: SharedRq } }

fn own(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth).unwrap();
}

fn shared(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Rc>) {
    pd.create_qp::<Rc, Shared>(cq, cq, Depth::on_srq(16, srq)).unwrap();
}

fn own_with_flags(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    pd.create_qp::<Ud, DefaultProfile>(cq, cq, depth.flags(QpCreateFlags::default())).unwrap();
}
