// R6.6, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn whole(region: &MemoryRegion<RemoteRead>) {
    region.remote();
}

fn part(region: &MemoryRegion<RemoteRead>) {
    region.export::<RemoteRead>();
}
