// R19.6, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::ext::windows::{BoundWindow, LentWindow, WindowEntry};
use proverbs::prelude::*;

fn bound(window: BoundWindow<RemoteWrite>) {
    let _ = ext::windows::LocalInv::new(window);
}

fn known(window: WindowEntry) {
    let _ = window.into_bound::<RemoteWrite>().map(ext::windows::LocalInv::new);
}

fn given_up(window: LentWindow) {
    let _ = window.destroy();
}

pub fn main() {
    let _ = (bound, known, given_up);
}
