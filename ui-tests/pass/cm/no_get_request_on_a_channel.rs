// R16.14, rdma_get_request(3): the legal twin of the test of this name.
use proverbs::cm::*;

fn on_a_channel(id: &CmId<Tcp, Listening, OnChannel>, event: Event) {
    let _ = id.request(event);
}
