// R6.7, ibv_reg_mr(3): the legal twin of ui-tests/memory/no_key_with_rights_that_the_region_lacks.rs.
use proverbs::prelude::*;

fn export(region: &MemoryRegion<RemoteReadWrite>) -> RemoteSlice<RemoteRead> {
    region.export::<RemoteRead>()
}
