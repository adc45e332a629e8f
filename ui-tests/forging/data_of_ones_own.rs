// Proves R7.10: memory that the device writes is registered, and the crate knows it.
// Enforced by `RecvSink`, which is sealed.
use proverbs::prelude::*;

struct Mine(#[allow(dead_code)] [u8; 64]);

impl wr::RecvSink for Mine {}

fn main() {}
