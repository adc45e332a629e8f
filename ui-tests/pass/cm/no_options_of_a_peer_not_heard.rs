// R23.1, rdma_get_remote_ece(3): the legal twin of ui-tests/cm/no_options_of_a_peer_not_heard.rs.
use proverbs::cm::*;

fn in_time(request: &Request<Tcp>) {
    let _ = request.id.remote_ece();
}
