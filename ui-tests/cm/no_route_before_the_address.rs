// Proves R16.2, rdma_resolve_route(3): a route is resolved after the address.
// Enforced by `ResolvesRoute`.
use proverbs::cm::*;
use std::time::Duration;

fn early(id: CmId<Tcp, Created>, timeout: Duration) {
    let _ = id.resolve_route(timeout);
}

fn main() {}
