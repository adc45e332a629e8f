// R25.4, ibv_wr_post(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn writers(at: RemoteSlice<RemoteAll>) {
    let _ = ext::persistence::AtomicWrite::new(at.write_cell(0).unwrap(), [0; 8]);
}

fn main() {}
