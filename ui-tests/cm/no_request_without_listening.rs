// Proves R16.1, rdma_listen(3): requests come to listening ids.
// Enforced by `TakesRequests`.
use proverbs::cm::*;

fn early(id: CmId<Tcp, Bound>) {
    let _ = id.get_request();
}

fn main() {}
