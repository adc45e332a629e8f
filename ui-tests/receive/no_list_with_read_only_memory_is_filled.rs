// Proves R4.5, ibv_post_send(3): a READ and a receive do not write to shared and read-only memory.
// Enforced by `Sink`.
use proverbs::memory::{ReadOnlyBuf, ToRead};
use proverbs::prelude::*;

fn read(from: RemoteSpan<ToRead>, pieces: [ReadOnlyBuf; 2]) {
    let _ = wr::RdmaRead::new(pieces, from);
}

fn receive(pair: (Buf, SharedBuf)) {
    let _ = wr::Recv::at(pair);
}

fn main() {}
