// R6.6, ibv_reg_mr(3): the legal twin of ui-tests/memory/no_rkey_for_a_local_region.rs.
use proverbs::prelude::*;

fn whole(region: &MemoryRegion<RemoteRead>) {
    region.remote();
}

fn part(region: &MemoryRegion<RemoteRead>) {
    region.export::<RemoteRead>();
}
