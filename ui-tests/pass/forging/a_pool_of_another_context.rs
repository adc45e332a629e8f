// R17.1, ibv_create_srq(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::Max;
use proverbs::srq::FeedsSrq;

/// May leave its thread.
struct Mine;

type Queue = SharedReceiveQueue<Rc, Buf<Mine>, Max<1>>;

fn queue(pd: &ProtectionDomain, pool: &impl FeedsSrq<Mine>) -> Result<Queue, proverbs::Error> {
    pd.create_srq(pool)
}
