// R4.5, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::{OpenBuf, ToRead};
use proverbs::prelude::*;

fn read(from: RemoteSpan<ToRead>, pieces: [OpenBuf; 2]) {
    let _ = wr::RdmaRead::new(pieces, from);
}

fn receive(pair: (Buf, OpenBuf)) {
    let _ = wr::Recv::at(pair);
}
