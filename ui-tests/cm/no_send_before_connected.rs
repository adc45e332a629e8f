// Proves R16.7, rdma_post_send(3): sends are posted on a connected id.
// Enforced by `EpSends`.
use proverbs::{cm::*, prelude::*};

fn early(ep: &mut Ep<Tcp, RouteResolved>, buf: Buf) {
    let _ = ep.post_send((), buf);
}

fn main() {}
