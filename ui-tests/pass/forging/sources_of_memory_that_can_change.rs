// R6.3, ibv_reg_mr(3): the legal twin of the test of this name.
use std::ptr::NonNull;

use proverbs::memory::{Memory, Private, ReadOnly};
use proverbs::prelude::*;

struct Mine(Box<[u8]>);

// SAFETY: the box owns the bytes.
unsafe impl Memory for Mine {
    type Sharing = Private;
    type Protection = ReadOnly;

    fn bytes(&mut self) -> NonNull<[u8]> {
        self.0.bytes()
    }
}

fn source(region: &MemoryRegion<RemoteRead, Mine>) {
    let _ = region.source(0, 8);
}
