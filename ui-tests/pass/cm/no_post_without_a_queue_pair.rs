// R16.6, R7.9, rdma_post_recv(3): the legal twin of ui-tests/cm/no_post_without_a_queue_pair.rs.
use proverbs::cm::*;
use proverbs::prelude::*;

fn with(ep: &mut Ep<Tcp, RouteResolved>, buf: Buf) {
    let _ = ep.post_recv((), buf);
}
