// R7.3, ibv_create_srq(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::Max;

fn create(pd: &ProtectionDomain, pool: &Pool) {
    pd.create_srq::<Ud, Buf, Max<1>, ()>(pool).unwrap();
}
