// R16.10, R16.11, rdma_get_send_comp(3): the legal twin of ui-tests/cm/no_completion_calls_on_shared_queues.rs.
use proverbs::cm::*;

fn own(ep: &mut Ep<Tcp, Established>) {
    let _ = ep.get_send_comp();
}
