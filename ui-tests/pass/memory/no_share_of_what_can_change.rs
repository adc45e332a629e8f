// R18.2, ibv_reg_mr(3): the legal twin of the test of this name.
use std::sync::Arc;

use proverbs::memory::{ReadOnly, SharedMapping};
use proverbs::prelude::*;

fn never_written(table: &MemoryRegion<RemoteRead, Arc<[u8]>>) {
    let _ = table.share(0, 8);
}

fn file(table: &MemoryRegion<RemoteRead, SharedMapping<ReadOnly>>) {
    let _ = table.read_at(0, &mut [0; 8]);
}
