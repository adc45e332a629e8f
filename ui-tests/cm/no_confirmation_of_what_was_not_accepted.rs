// Proves R16.1: an id is confirmed in the peer's place after its request was accepted.
// Enforced by `HasAnswered`.
use proverbs::cm::*;

fn too_early(id: &CmId<Tcp, RouteResolved>) {
    let _ = id.notify_established();
}

fn main() {}
