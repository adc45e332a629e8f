// R16.1, rdma_accept(3): the legal twin of ui-tests/cm/a_request_is_answered_once.rs.
use proverbs::cm::*;
use proverbs::prelude::*;

fn one(request: Request<Udp>, qp: &QueuePair<Ud, Rts>) {
    let _ = request.accept(qp, &ReplyData::none());
}
