// Proves R16.1, rdma_bind_addr(3): an id is bound once, and resolves once.
// Enforced by `Binds` and `Resolves`.
use proverbs::{cm::*, ext::af_ib::IbAddr};
use std::{net::SocketAddr, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn bound(id: CmId<Tcp, Listening>, at: SocketAddr) {
    let _ = id.bind_addr(at);
}

fn bound_to_infiniband(id: CmId<Tcp, Listening>, at: IbAddr) {
    let _ = id.bind_ib_addr(at);
}

fn resolved(id: CmId<Tcp, Listening>, to: SocketAddr) {
    let _ = id.resolve_addr(to, SECOND);
}

fn resolving(id: CmId<Tcp, Listening, OnChannel>, to: SocketAddr) {
    let _ = id.resolve_addr(to, SECOND);
}

fn resolved_on_infiniband(id: CmId<Tcp, Listening>, to: IbAddr) {
    let _ = id.resolve_ib_addr(to, SECOND);
}

fn resolving_on_infiniband(id: CmId<Tcp, Listening, OnChannel>, to: IbAddr) {
    let _ = id.resolve_ib_addr(to, SECOND);
}

fn main() {}
