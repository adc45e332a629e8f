// Proves R18.2, ibv_reg_mr(3): a program cannot declare that memory never changes.
// Enforced by `NeverChanges`, which is sealed.
use std::ptr::NonNull;

use proverbs::memory::{Memory, NeverChanges, Private, Writable};

struct Mine(Box<[u8]>);

// SAFETY: the box owns the bytes.
unsafe impl Memory for Mine {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        self.0.bytes()
    }
}

impl NeverChanges for Mine {}

fn main() {}

// Safe code cannot promise that its own memory never changes.
