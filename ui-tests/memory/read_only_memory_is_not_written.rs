// Proves R6.3: nobody writes read-only memory: not this program, nor the device for it.
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
