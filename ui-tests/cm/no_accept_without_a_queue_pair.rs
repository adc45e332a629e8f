// Proves R16.4, rdma_accept(3): an id that accepts has a queue pair.
// Enforced by `Request::accept`, which takes the queue pair.
use proverbs::cm::*;
use std::time::Duration;

fn without(request: Request<Tcp>, param: &AcceptParam, timeout: Duration) {
    let _ = request.accept(param, timeout);
}

fn main() {}
