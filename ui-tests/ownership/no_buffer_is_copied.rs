// Proves R11.2, R3.10, R6.13, ibv_post_recv(3): no buffer is copied.
// Enforced by the absence of `Clone`.
use proverbs::prelude::*;

fn copy(buf: Buf) -> [Buf; 2] {
    [Clone::clone(&buf), buf]
}

fn main() {}
