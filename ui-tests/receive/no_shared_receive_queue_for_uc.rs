// Proves R7.3, ibv_create_srq(3): no shared receive queue for uc.
// Enforced by `SharesReceives`.
use proverbs::prelude::*;
use proverbs::qp::Max;

fn create(pd: &ProtectionDomain, pool: &Pool) {
    pd.create_srq::<Uc, Buf, Max<1>, ()>(pool).unwrap();
}

fn main() {}
