// Proves R6.3, ibv_reg_mr(3): memory that a device may write has no pieces that are only sent.
// Enforced by `HasSources`, which no other crate can implement.
use std::ptr::NonNull;

use proverbs::memory::{HasSources, Memory, Private, Writable};

struct Mine(Box<[u8]>);

// SAFETY: the box owns the bytes.
unsafe impl Memory for Mine {
    type Sharing = Private;
    type Protection = Writable;

    fn bytes(&mut self) -> NonNull<[u8]> {
        self.0.bytes()
    }
}

impl HasSources for Mine {
    const SEAL: () = ();
}

fn main() {}

// Safe code cannot declare a region in writable memory a source.
