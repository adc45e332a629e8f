// Proves R16.1, rdma_resolve_addr(3): the calls come in the order of the state machine.
// Enforced by `resolve_addr`, which takes the id.
use proverbs::cm::*;
use std::time::Duration;

fn twice(id: CmId<Tcp, Created>, peer: std::net::SocketAddr, timeout: Duration) {
    let _ = id.resolve_addr(peer, timeout);
    let _ = id.resolve_addr(peer, timeout);
}

fn main() {}
