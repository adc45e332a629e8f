// R6.7, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn open(region: &MemoryRegion<RemoteRead>) {
    let _ = region.cell(0);
}

fn local(region: &MemoryRegion<LocalWrite>) {
    let _ = region.piece(0, 8);
}
