// Proves R7.1, ibv_create_qp(3): the profile says where receives come from.
// Enforced by `Profile::Receive`.
use proverbs::prelude::*;
use proverbs::qp::QpCreateFlags;

profile! { Shared { receive: SharedRq } }

fn own(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    pd.create_qp::<Rc, Shared>(cq, cq, depth).unwrap();
}

fn shared(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Rc>) {
    pd.create_qp_on_srq::<Rc, DefaultProfile, _>(cq, cq, srq, 16).unwrap();
}

fn own_with_flags(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    pd.create_qp_ex::<Shared>(cq, cq, depth, QpCreateFlags::default()).unwrap();
}

fn main() {}
