// Proves R16.6, rdma_post_recv(3): posting needs an id with a queue pair.
// Enforced by `CmId`, which has no posts; `Ep` has them.
use proverbs::{cm::*, prelude::*};

fn without(id: &mut CmId<Tcp, RouteResolved>, buf: Buf) {
    let _ = id.post_recv((), buf);
}

fn main() {}
