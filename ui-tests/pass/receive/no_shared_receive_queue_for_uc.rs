// R7.3, ibv_create_srq(3): the legal twin of ui-tests/receive/no_shared_receive_queue_for_uc.rs.
use proverbs::prelude::*;
use proverbs::qp::Max;

fn create(pd: &ProtectionDomain, pool: &Pool) {
    pd.create_srq::<Ud, Buf, Max<1>, ()>(pool).unwrap();
}
