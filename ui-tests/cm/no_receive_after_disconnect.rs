// Proves R16.20, R7.15, rdma_disconnect(3): after a disconnect there are only flushes to wait for.
// Enforced by `CanPostRecv`.
use proverbs::{cm::*, prelude::*};

fn late(ep: &mut Ep<Tcp, Disconnected>, buf: Buf) {
    let _ = ep.post_recv((), buf);
}

fn main() {}
