// R25.1, ibv_wr_post(3): the legal twin of the test of this name.
use proverbs::ext::persistence::{Flushable, Persistent};
use proverbs::prelude::*;

fn written(at: RemoteSlice<Flushable<RemoteWrite>>) {
    let _ = at.flush_global();
}

fn seen(at: RemoteSlice<Persistent<RemoteWrite>>) {
    let _ = (at.flush_persistent(), at.flush_global());
}

fn main() {}
