// R16.1, rdma_resolve_addr(3): the legal twin of the test of this name.
use proverbs::cm::*;
use std::time::Duration;

fn again(id: CmId<Tcp, Created>, peer: std::net::SocketAddr, timeout: Duration) {
    // A failed step gives the id back.
    if let Err(refused) = id.resolve_addr(peer, timeout) {
        let _ = refused.into_object().resolve_addr(peer, timeout);
    }
}
