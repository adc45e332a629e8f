// R11.2, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn copy(buf: Buf) -> [SharedBuf; 2] {
    let shared = buf.freeze();
    [shared.clone(), shared]
}
