// Proves R23.1, rdma_get_remote_ece(3): options come with the peer's request or answer.
// Enforced by `HeardPeer`.
use proverbs::cm::*;

fn early(id: &CmId<Tcp, RouteResolved>) {
    let _ = id.remote_ece();
}

fn main() {}
