// R16.1, rdma_set_option(3): the legal twin of ui-tests/cm/no_options_after_the_route.rs.
use proverbs::cm::*;

fn in_time(mut id: CmId<Tcp, AddrResolved>) {
    let _ = id.set_tos(8);
}
