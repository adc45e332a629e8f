// R6.7, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn export(region: &MemoryRegion<RemoteReadWrite>) -> RemoteSlice<RemoteRead> {
    region.export::<RemoteRead>()
}
