// R23.7, rdma_create_ep(3): the legal twin of the test of this name.
use proverbs::cm::*;
use proverbs::prelude::*;
use std::time::Duration;

fn on_a_channel(ep: Ep<Tcp, Established, DefaultProfile, OnChannel>) {
    if let Ok(mut ep) = ep.into_synchronous() {
        let _ = ep.id.wait_disconnected(Duration::from_secs(1));
    }
}
