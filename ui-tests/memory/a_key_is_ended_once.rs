// Proves R19.1, ibv_post_send(3): who ends the key of a memory window gives it up.
// Enforced by `LocalInv::new` and `SendWithInv::new`, which take it by value.
use proverbs::ext::windows::{BoundWindow, Revocable};
use proverbs::prelude::*;

fn twice_here(window: BoundWindow<RemoteWrite>) {
    let _ = ext::windows::LocalInv::new(window);
    let _ = ext::windows::LocalInv::new(window);
}

fn told_after_it(window: BoundWindow<RemoteWrite>) -> RemoteSlice<RemoteWrite> {
    let _ = ext::windows::LocalInv::new(window);
    window.remote()
}

fn twice_there(lent: Revocable<RemoteWrite>) {
    let _ = ext::windows::SendWithInv::new(wr::Empty, lent);
    let _ = ext::windows::SendWithInv::new(wr::Empty, lent);
}

fn written_after_it(lent: Revocable<RemoteWrite>, buf: Buf) {
    let _ = ext::windows::SendWithInv::new(wr::Empty, lent);
    let _ = wr::RdmaWrite::new(buf, lent.write());
}

fn copied(lent: &Revocable<RemoteWrite>) -> Revocable<RemoteWrite> {
    lent.clone()
}

fn main() {}
