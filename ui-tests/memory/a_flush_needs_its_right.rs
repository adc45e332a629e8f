// Proves R25.1, ibv_wr_post(3): a FLUSH needs the right of its placement in the key.
// Enforced by `GrantsFlush` and `GrantsPersistence`.
use proverbs::ext::persistence::Flushable;
use proverbs::prelude::*;

fn written(at: RemoteSlice<RemoteWrite>) {
    let _ = at.flush_global();
}

fn seen(at: RemoteSlice<Flushable<RemoteWrite>>) {
    let _ = at.flush_persistent();
}

fn main() {}
