// Proves R9.9, R18.1, ibv_create_cq(3), ibv_reg_mr(3): a builder that is dropped has created nothing.
// Enforced by #[must_use] of the builders.
#![deny(unused_must_use)]
use proverbs::device::Can;
use proverbs::ext::on_demand::OnDemand;
use proverbs::prelude::*;

fn completion_queue(context: &Context, depth: Depth) {
    context.cq(0).queue_pairs(4, depth);
}

fn pool(pd: &ProtectionDomain) {
    pd.pool(4096).contexts(|index| index);
}

fn arena(pd: &ProtectionDomain) {
    pd.arena(64);
}

fn region(pd: &ProtectionDomain) {
    pd.region::<RemoteRead>();
}

fn on_demand(pd: &ProtectionDomain, can: &Can<OnDemand<Rc, RemoteRead>>) {
    pd.region().on_demand(can);
}

fn main() {}
