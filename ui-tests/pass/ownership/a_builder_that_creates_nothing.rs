// R9.9, R18.1, ibv_create_cq(3), ibv_reg_mr(3): the legal twin of the test of this name.
#![deny(unused_must_use)]
use proverbs::device::Can;
use proverbs::ext::on_demand::OnDemand;
use proverbs::prelude::*;

fn completion_queue(context: &Context, depth: Depth) -> Result<CompletionQueue, proverbs::Error> {
    context.cq(0).queue_pairs(4, depth).create()
}

fn pool(pd: &ProtectionDomain) -> Result<Pool<usize>, proverbs::Error> {
    pd.pool(4096).contexts(|index| index).create(64)
}

fn arena(pd: &ProtectionDomain) {
    let _ = pd.arena(64).create(1 << 20);
}

fn region(pd: &ProtectionDomain) {
    let _ = pd.region::<RemoteRead>().create(4096);
}

fn on_demand(pd: &ProtectionDomain, can: &Can<OnDemand<Rc, RemoteRead>>) {
    let _ = pd.region().on_demand(can).create(4096);
}
