// Proves R16.14, rdma_get_request(3): requests are taken from synchronous listening ids.
// Enforced by `WaitsInCalls`.
use proverbs::cm::*;

fn on_a_channel(id: &CmId<Tcp, Listening, OnChannel>) {
    let _ = id.get_request();
}

fn main() {}
