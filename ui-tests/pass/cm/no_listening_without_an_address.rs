// R16.1, R16.14, rdma_listen(3): the legal twin of the test of this name.
use proverbs::cm::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn listening(id: CmId<Tcp, Bound>) {
    let _ = id.listen(8);
}

fn asked(id: &CmId<Tcp, Listening>) {
    let _ = id.get_request_timeout(SECOND);
}

fn asked_on_a_channel(id: &CmId<Tcp, Listening, Synchronous>) {
    let _ = id.get_request_timeout(SECOND);
}
