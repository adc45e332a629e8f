// R17.7, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn twice(pd: &ProtectionDomain) {
    let _ = pd.pool(64).contexts(|index| (index, ())).create(3);
}

fn of_nothing(pd: &ProtectionDomain) {
    let _ = pd.arena(64).contexts(|_| 7).create(4096);
}

fn of_another_type(pd: &ProtectionDomain) {
    let _: Result<Pool<String>, _> = pd.pool(64).contexts(|index| index.to_string()).create(3);
}
