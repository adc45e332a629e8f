// Proves R18.2, ibv_reg_mr(3): a program does not say of memory that it never changes.
// Enforced by `NeverChanges`, which is sealed.
use std::ptr::NonNull;

use proverbs::memory::{Memory, NeverChanges, Private, Writable};

struct Mine(Box<[u8]>);

// SAFETY: the bytes are the box's.
unsafe impl Memory for Mine {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        self.0.bytes()
    }
}

impl NeverChanges for Mine {}

fn main() {}

// Holds P4: safe code cannot promise that its own memory never changes.
