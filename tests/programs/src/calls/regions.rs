//! Regions that change.

use super::*;

/// weight 2
fn rereg_access(w: &World, region: Region<A, M>) -> Option<Region<AnyOpen, M>> {
    region.rereg_access::<AnyOpen>().ok()
}

/// weight 1
fn rereg_pd(w: &World, region: Region<A, M>, pd: &Pd) -> Option<Region<A, M>> {
    region.rereg_pd(pd).ok()
}

/// weight 2; open
fn rereg_memory(
    w: &World,
    region: Region<A, M>,
    memory: AnyMemory,
) -> (Option<Region<A, AnyMemory>>, Option<M>) {
    let mut memory = memory;
    memory.wipe();
    w.untouched(&region);
    match region.rereg_memory(memory) {
        Ok((region, old)) => (Some(region), Some(old)),
        Err(_) => (None, None),
    }
}

/// weight 2
fn shared_buf_id(w: &World, shared: &mut SharedBuf) {
    let id = w.pick(0, [0, 7, !0]);
    shared.set_id(id);
    assert_eq!(shared.id(), id);
    assert!(shared.handles() > 0);
}

/// weight 3
fn thaw(w: &World, shared: SharedBuf) -> Option<Buf> {
    shared.thaw::<()>().ok()
}

/// weight 3
fn thaw_if_last(w: &World, shared: SharedBuf) -> Option<Buf> {
    shared.thaw_if_last::<()>()
}

/// weight 4
fn set_range(w: &World, piece: &mut OpenBuf) {
    let from = w.pick(0, [0, 8, 16, !0]);
    let len = w.pick(0, [0, 1, 8, 40, !0]);
    let (had, is_set) = (piece.len(), piece.set_range(from, len).is_ok());
    assert_eq!(piece.len(), if is_set { len } else { had });
}

/// weight 2
fn open_buf_id(w: &World, piece: &mut OpenBuf) {
    let id = w.pick(0, [0, 7, !0]);
    piece.set_id(id);
    assert_eq!(piece.id(), id);
}

/// weight 4; open
fn reads_into_device_memory(w: &World, context: &Context, pd: &Pd, cq: &mut Cq<AnyBuf>) {
    let at = w.pick(0, [0, 8, 20]);
    let byte = w.pick(0, [1, 9]);
    let len = w.pick(0, [8, 16, 40]);
    if let Some(can) =
        context.abilities().ok().and_then(|all| all.can::<proverbs::device::DeviceMemory>())
    {
        if let (Ok(memory), Ok(source), Ok(qp)) = (
            context.alloc_dm(&can, 64, 0),
            pd.register::<RemoteRead>(64),
            pd.create_qp::<Rc, Mixed>(cq, cq, DEPTH),
        ) {
            if let (Some(mut qp), Ok(sink)) =
                (w.alone(context, qp), pd.register_dm::<LocalWrite>(memory))
            {
                let _ = sink.memcpy_to_dm(0, &[byte; 64]);
                for len in [len, 4] {
                    if let (Ok(piece), Ok(from)) =
                        (sink.piece(at, len), source.remote().slice(0, len as u64))
                    {
                        w.reads(len as u64);
                        w.posted(qp.post_send(wr::RdmaRead::new(piece, from.read())));
                    }
                }
                w.dry(cq);
                let _ = sink.memcpy_from_dm(0, &mut [0; 64]);
                drop(qp);
            }
        }
    }
}
