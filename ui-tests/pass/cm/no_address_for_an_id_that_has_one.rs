// R16.1, rdma_bind_addr(3): the legal twin of the test of this name.
use proverbs::cm::*;
use proverbs::ext::af_ib::IbAddr;
use std::{net::SocketAddr, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn bound(id: CmId<Tcp, Created>, at: SocketAddr) {
    let _ = id.bind_addr(at);
}

fn bound_to_infiniband(id: CmId<Tcp, Created>, at: IbAddr) {
    let _ = id.bind_ib_addr(at);
}

fn resolved(id: CmId<Tcp, Created>, to: SocketAddr) {
    let _ = id.resolve_addr(to, SECOND);
}

fn resolving(id: CmId<Tcp, Created, OnChannel>, to: SocketAddr) {
    let _ = id.resolve_addr(to, SECOND);
}

fn resolved_on_infiniband(id: CmId<Tcp, Created>, to: IbAddr) {
    let _ = id.resolve_ib_addr(to, SECOND);
}

fn resolving_on_infiniband(id: CmId<Tcp, Created, OnChannel>, to: IbAddr) {
    let _ = id.resolve_ib_addr(to, SECOND);
}
