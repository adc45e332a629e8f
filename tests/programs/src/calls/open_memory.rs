//! Memory open to the fabric.

use super::*;

/// weight 6; open
fn register(w: &World, pd: &Pd) -> Option<Region<AnyOpen, Pages>> {
    let len = w.pick(0, [64, 256, 21]);
    pd.register::<AnyOpen>(len).ok()
}

/// weight 12
fn remote(w: &World, region: &Region<A, M>) -> Option<Slice<A>> {
    Some(region.remote())
}

/// weight 10
fn slice(w: &World, remote: Slice<A>) -> Option<Slice<A>> {
    let from = w.pick(0, [0, 8, 16]);
    let len = w.pick(0, [1, 8, 16]);
    remote.slice(from, len).ok().filter(|part| part.len() == len && !part.is_empty())
}

/// weight 2
fn to_bytes(w: &World, remote: Slice<A>) -> Option<Slice<A>> {
    RemoteSlice::<A>::from_bytes(&remote.to_bytes())
}

/// weight 4
fn piece(w: &World, region: &Region<A, M>) -> Option<OpenBuf> {
    let from = w.pick(0, [0, 8, 16]);
    let len = w.pick(0, [1, 8, 5]);
    region.piece(from, len).ok()
}

/// weight 2
fn open_buf_len(w: &World, piece: &OpenBuf) -> Option<OpenBuf> {
    let _ = (piece.len(), piece.is_empty());
    Some(piece.clone())
}

/// weight 5
fn memory_region_read_at(w: &World, region: &Region<A, M>) {
    let from = w.pick(0, [0, 3, 8, 60]);
    let mut some = [0; 9];
    let _ = (region.read_at(from, &mut some), region.len(), region.is_empty());
}

/// weight 5
fn cell(w: &World, region: &Region<AnyAtomic, M>) {
    let from = w.pick(0, [0, 8, 3]);
    if let Ok(cell) = region.cell(from) {
        let _ = cell.load(std::sync::atomic::Ordering::Acquire);
    }
}

/// weight 4
fn write_at(w: &World, region: &Region<AnyReadable, M>) {
    let from = w.pick(0, [0, 3, 8, 60]);
    if let Ok(part) = region.remote().slice(from as u64, 5) {
        w.opens(part);
        let _ = region.write_at(from, &[1, 2, 3, 4, 5]);
    }
}

/// weight 2
fn memory_region_destroy(w: &World, region: Region<A, M>) -> (Option<Region<A, M>>, Option<M>) {
    w.untouched(&region);
    match region.destroy() {
        Ok(memory) => (None, Some(memory)),
        Err(refused) => (Some(refused.into_object()), None),
    }
}
