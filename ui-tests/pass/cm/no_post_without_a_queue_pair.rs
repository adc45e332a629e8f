// R16.6, rdma_post_recv(3): the legal twin of the test of this name.
use proverbs::cm::*;
use proverbs::prelude::*;

fn with(ep: &mut Ep<Tcp, RouteResolved>, buf: Buf) {
    let _ = ep.post_recv((), buf);
}
