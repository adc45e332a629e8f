// Proves R16.1, R16.14, rdma_listen(3): an id that is bound listens, and gets requests then.
// Enforced by `Listens`, `TakesRequests` and `WaitsInCalls`.
use proverbs::cm::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn listening(id: CmId<Tcp, Created>) {
    let _ = id.listen(8);
}

fn asked(id: &CmId<Tcp, Bound>) {
    let _ = id.get_request_timeout(SECOND);
}

fn asked_on_a_channel(id: &CmId<Tcp, Listening, OnChannel>) {
    let _ = id.get_request_timeout(SECOND);
}

fn main() {}
