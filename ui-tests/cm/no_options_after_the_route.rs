// Proves R16.1, rdma_set_option(3): the kernel reads the options when it resolves the route.
// Enforced by `TakesOptions`.
use proverbs::cm::*;

fn late(mut id: CmId<Tcp, RouteResolved>) {
    let _ = id.set_tos(8);
}

fn main() {}
