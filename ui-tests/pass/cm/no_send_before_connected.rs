// R16.7, rdma_post_send(3): the legal twin of the test of this name.
use proverbs::cm::*;
use proverbs::prelude::*;

fn in_time(ep: &mut Ep<Tcp, Established>, buf: Buf) {
    let _ = ep.post_send((), buf);
}
