// R7.1, R27.3, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;
use proverbs::qp::CreatedWith;

profile! { Served { receive: SharedRq } }
profile! { Each { posting: ExtendedPosting<Srd> } }

fn served(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Rc>) {
    pd.create_qp::<Rc, Served>(cq, cq, Depth::on_srq(8, srq)).unwrap();
}

fn each(pd: &ProtectionDomain, cq: &CompletionQueue, with: impl CreatedWith<Srd, Each>) {
    pd.create_qp::<Srd, Each>(cq, cq, with).unwrap();
}
