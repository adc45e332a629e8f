// Proves R25.4, ibv_wr_post(3): an ATOMIC_WRITE needs 8 aligned bytes with REMOTE_WRITE.
// Enforced by `GrantsWrite` and `WriteCell`.
use proverbs::memory::RemoteCell;
use proverbs::prelude::*;

fn readers(at: RemoteSlice<RemoteRead>) {
    let _ = at.write_cell(0);
}

fn of_atomics(cell: RemoteCell) {
    let _ = ext::persistence::AtomicWrite::new(cell, [0; 8]);
}

fn longer(at: RemoteSlice<RemoteWrite>) {
    let _ = ext::persistence::AtomicWrite::new(at.write_cell(0).unwrap(), [0; 9]);
}

fn main() {}
