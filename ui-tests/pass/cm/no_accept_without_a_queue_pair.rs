// R16.4, rdma_accept(3): the legal twin of the test of this name.
use proverbs::cm::*;
use proverbs::prelude::*;
use std::time::Duration;

fn with(request: Request<Tcp>, qp: QueuePair<Rc, Init>, param: &AcceptParam, timeout: Duration) {
    let _ = request.accept(qp, param, timeout);
}
