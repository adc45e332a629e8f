// R18.2, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::memory::{Mapping, SharedMapping};
use proverbs::prelude::*;

fn mapping(private: &Mapping) -> &[u8] {
    private
}

fn region(file: &MemoryRegion<LocalWrite, SharedMapping>) {
    let _ = file.read_at(0, &mut [0; 8]);
}
