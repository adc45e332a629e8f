// R6.12, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn look(region: &MemoryRegion<RemoteWrite>) -> u8 {
    let mut bytes = [0];
    region.read_at(0, &mut bytes).unwrap();
    bytes[0]
}

fn write(region: &mut MemoryRegion<RemoteRead>) {
    region.write_at(0, b"four").unwrap();
}
