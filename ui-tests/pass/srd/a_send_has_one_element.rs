// R27.6, efadv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;

profile! { It { posting: ExtendedPosting<Srd>, max_send_sge: 1, max_recv_sge: 2 } }

fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_qp::<Srd, It>(cq, cq, depth);
}
