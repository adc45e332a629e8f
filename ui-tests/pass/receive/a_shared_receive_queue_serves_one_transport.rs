// R5.8, R7.3, ibv_create_qp(3): the legal twin of ui-tests/receive/a_shared_receive_queue_serves_one_transport.rs.
use proverbs::prelude::*;

profile! { Shared { receive: SharedRq } }

fn create(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Rc>) {
    pd.create_qp_on_srq::<Rc, Shared, _>(cq, cq, srq, 16).unwrap();
}
