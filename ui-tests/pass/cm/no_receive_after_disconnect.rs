// R16.20, R7.15, rdma_disconnect(3): the legal twin of the test of this name.
use proverbs::cm::*;

fn late(ep: &mut Ep<Tcp, Disconnected>) {
    let _ = ep.drain(drop);
}
