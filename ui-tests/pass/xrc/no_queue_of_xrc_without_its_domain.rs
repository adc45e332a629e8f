// R26.4, ibv_create_srq_ex(3): the legal twin of the test of this name.
use proverbs::Error;
use proverbs::prelude::*;

fn created(pd: &ProtectionDomain, pool: &Pool) -> Result<SharedReceiveQueue<Rc>, Error> {
    pd.create_srq(pool)
}
