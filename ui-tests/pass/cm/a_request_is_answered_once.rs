// R16.1, rdma_accept(3): the legal twin of the test of this name.
use proverbs::cm::*;
use proverbs::prelude::*;

fn one(request: Request<Udp>, qp: &QueuePair<Ud, Rts>) {
    let _ = request.accept(qp, &ReplyData::none());
}
