// R19.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::ext::windows::{BoundWindow, Revocable};
use proverbs::prelude::*;

fn once_here(window: BoundWindow<RemoteWrite>) -> RemoteSlice<RemoteWrite> {
    let told = window.remote();
    let _ = ext::windows::LocalInv::new(window);
    told
}

fn once_there(lent: Revocable<RemoteWrite>, buf: Buf) {
    let _ = wr::RdmaWrite::new(buf, lent.write());
    let _ = ext::windows::SendWithInv::new(wr::Empty, lent);
}

pub fn main() {
    let _ = (once_here, once_there);
}
