// Proves R16.1, rdma_accept(3): a request is accepted or rejected, once.
// Enforced by `accept` and `reject`, which take the request.
use proverbs::{cm::*, prelude::*};

fn both(request: Request<Udp>, qp: &QueuePair<Ud, Rts>) {
    let _ = request.accept(qp, &ReplyData::none());
    let _ = request.reject(&ReplyData::none());
}

fn main() {}
