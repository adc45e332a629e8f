// Proves R23.7, rdma_create_ep(3): an endpoint on a channel does not wait in its calls.
// Enforced by `WaitsInCalls`.
use proverbs::cm::*;
use proverbs::prelude::*;
use std::time::Duration;

fn on_a_channel(mut ep: Ep<Tcp, Established, DefaultProfile, OnChannel>) {
    let _ = ep.id.wait_disconnected(Duration::from_secs(1));
}

fn main() {}
