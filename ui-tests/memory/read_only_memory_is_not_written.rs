// Proves R6.3: neither the program nor the device writes to read-only memory.
// Enforced by `CanBeWritten`.
use proverbs::memory::{ReadOnly, ReadOnlyBuf, SharedMapping};
use proverbs::prelude::*;

fn region(file: &MemoryRegion<RemoteRead, SharedMapping<ReadOnly>>) {
    let _ = file.write_at(0, b"new");
    let _ = file.cell(0);
    let _ = file.piece(0, 8);
}

fn mapping(file: &SharedMapping<ReadOnly>) {
    let _ = file.write_at(0, b"new");
}

fn by_a_read(piece: ReadOnlyBuf, at: RemoteSlice<RemoteRead>) {
    let _ = wr::RdmaRead::new(piece, at.read());
}

fn main() {}
