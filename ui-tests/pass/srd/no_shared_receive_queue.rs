// R27.2, efadv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;

profile! { It { posting: ExtendedPosting<Srd> } }
profile! { OfRc { receive: SharedRq } }

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_qp::<Srd, It>(cq, cq, depth);
}

fn shared(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Rc>) {
    let _ = pd.create_qp::<Rc, OfRc>(cq, cq, Depth::on_srq(8, srq));
}
