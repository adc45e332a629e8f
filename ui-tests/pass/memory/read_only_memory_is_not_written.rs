// R6.3, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::memory::{ReadOnly, ReadOnlyBuf, SharedMapping};
use proverbs::prelude::*;

fn region(file: &MemoryRegion<RemoteRead, SharedMapping>) {
    let _ = file.write_at(0, b"new");
    let _ = file.cell(0);
    let _ = file.piece(0, 8);
}

fn mapping(file: &SharedMapping, other: &SharedMapping<ReadOnly>) {
    let _ = file.write_at(0, b"new");
    let _ = other.read_at(0, &mut [0; 8]);
}

fn sent_from(piece: ReadOnlyBuf, at: RemoteSlice<RemoteWrite>) {
    let _ = wr::RdmaWrite::new(piece, at.write());
}
