// R16.1, rdma_listen(3): the legal twin of the test of this name.
use proverbs::cm::*;

fn in_time(id: CmId<Tcp, Bound>) {
    let _ = id.listen(8).map(|id| id.get_request());
}
