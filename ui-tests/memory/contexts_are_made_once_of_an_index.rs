// Proves R17.7, ibv_post_send(3): each buffer has one context, of the type that its pool is for.
// Enforced by the types of `PoolBuilder` and `ArenaBuilder`.
use proverbs::prelude::*;

fn twice(pd: &ProtectionDomain) {
    let _ = pd.pool(64).contexts(|index| index).contexts(|_| ()).create(3);
}

fn of_nothing(pd: &ProtectionDomain) {
    let _ = pd.arena(64).contexts(|| 7).create(4096);
}

fn of_another_type(pd: &ProtectionDomain) {
    let _: Result<Pool<String>, _> = pd.pool(64).contexts(|index| index).create(3);
}

fn main() {}
