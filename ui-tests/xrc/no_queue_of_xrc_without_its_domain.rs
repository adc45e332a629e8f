// Proves R26.4, ibv_create_srq_ex(3): a shared receive queue of XRC has a domain.
// Enforced by `HasBothQueues`.
use proverbs::Error;
use proverbs::prelude::*;

fn created(pd: &ProtectionDomain, pool: &Pool) -> Result<SharedReceiveQueue<Xrc>, Error> {
    pd.create_srq(pool)
}

fn main() {}
