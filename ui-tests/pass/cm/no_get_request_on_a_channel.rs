// R16.14, rdma_get_request(3): the legal twin of ui-tests/cm/no_get_request_on_a_channel.rs.
use proverbs::cm::*;

fn on_a_channel(id: &CmId<Tcp, Listening, OnChannel>, event: Event) {
    let _ = id.request(event);
}
