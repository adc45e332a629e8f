// R16.1, rdma_notify(3): the legal twin of the test of this name.
use proverbs::cm::*;

fn in_time(id: &CmId<Tcp, Accepting>) {
    let _ = id.notify_established();
}
