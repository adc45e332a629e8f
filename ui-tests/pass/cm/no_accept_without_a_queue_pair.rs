// R16.4, rdma_accept(3): the legal twin of ui-tests/cm/no_accept_without_a_queue_pair.rs.
use proverbs::cm::*;
use proverbs::prelude::*;
use std::time::Duration;

fn with(request: Request<Tcp>, qp: QueuePair<Rc, Init>, param: &AcceptParam, timeout: Duration) {
    let _ = request.accept(qp, param, timeout);
}
