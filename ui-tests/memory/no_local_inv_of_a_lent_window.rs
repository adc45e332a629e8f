// Proves R19.6, ibv_post_send(3): a key that the peer gives back is not ended here.
// Enforced by `LocalInv::new`, which takes a `BoundWindow`.
use proverbs::ext::windows::{LentWindow, MemoryWindow, WindowEntry};
use proverbs::prelude::*;

fn lent(window: LentWindow) {
    let _ = ext::windows::LocalInv::new(window);
}

fn unbound(window: MemoryWindow) {
    let _ = ext::windows::LocalInv::new(window);
}

fn unknown(window: WindowEntry) {
    let _ = ext::windows::LocalInv::new(window);
}

fn by_its_number(window: LentWindow) {
    let _ = ext::windows::LocalInv::new(window.rkey());
}

fn main() {}
