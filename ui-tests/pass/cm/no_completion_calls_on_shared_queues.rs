// R16.10, R16.11, rdma_get_send_comp(3): the legal twin of the test of this name.
use proverbs::cm::*;

fn own(ep: &mut Ep<Tcp, Established>) {
    let _ = ep.get_send_comp();
}
