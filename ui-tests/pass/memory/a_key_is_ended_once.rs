// R19.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::{BoundWindow, Revocable};
use proverbs::prelude::*;

fn once_here(window: BoundWindow<RemoteWrite>) -> RemoteSlice<RemoteWrite> {
    let told = window.remote();
    let _ = wr::LocalInv::new(window);
    told
}

fn once_there(lent: Revocable<RemoteWrite>, buf: Buf) {
    let _ = wr::RdmaWrite::new(buf, lent.write());
    let _ = wr::SendWithInv::new(wr::Empty, lent);
}

pub fn main() {
    let _ = (once_here, once_there);
}
