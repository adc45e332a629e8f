// R16.1, rdma_disconnect(3): the legal twin of the test of this name.
use proverbs::cm::*;
use std::time::Duration;

fn in_time(mut id: CmId<Tcp, Established>) {
    let _ = id.wait_disconnected(Duration::from_secs(1));
}
