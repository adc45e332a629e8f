//! The program's own memory.

use super::*;

/// weight 6
fn memory(w: &World) -> Option<AnyMemory> {
    let len = w.pick(0, [512, 256, 100]);
    <AnyMemory as Own>::fresh(len)
}

/// weight 14
fn pool_in_memory(
    w: &World,
    pd: &Pd,
    memory: AnyPrivate,
) -> (Option<PoolIn<AnyPrivate>>, Option<AnyPrivate>) {
    let size = w.pick(0, [64, 64, 48, 0, 4096, usize::MAX]);
    match pd.pool(size).create_in(memory) {
        Ok(pool) => (Some(pool), None),
        Err(refused) => (None, Some(refused.into_parts().0)),
    }
}

/// weight 30
fn take_of_own_memory(w: &World, pool: &PoolIn<M>) -> Option<Buf> {
    let len = w.pick(0, [0, 1, 8, 24, 64]);
    let tag = w.pick(0, [1, 17, 200]);
    pool.take().map(|buf| tagged(buf, len, tag))
}

/// weight 3
fn pool_clone(w: &World, pool: &PoolIn<M>) -> Option<PoolIn<M>> {
    w.clones();
    Some(pool.clone())
}

/// weight 5
fn reclaim_of_own_memory(w: &World, pool: &PoolIn<M>, cq: &mut Cq<E>) {
    let _ = pool.reclaim(cq);
}

/// weight 12; alone
fn own_memory_comes_back(w: &World, pool: PoolIn<M>) -> (Option<PoolIn<M>>, Option<M>) {
    w.gives_back(pool)
}

/// weight 4; kin pd pool
fn shared_receive_queue_of_own_memory(
    w: &World,
    pd: &Pd,
    pool: &PoolIn<M>,
) -> Option<Srq<AnyShares>> {
    w.clones();
    if pool.count() > BUFFERS {
        w.hides();
    }
    w.made(pd.create_srq::<AnyShares, Buf, Max<1>, _>(pool))
}

/// weight 8
fn post_srq_recv_of_own_memory(w: &World, srq: &mut Srq<T>, pool: &PoolIn<M>) {
    let n = w.pick(0, [1, 3, 9]);
    for _ in 0..n {
        if let Some(buf) = pool.take() {
            let _ = srq.post_srq_recv(wr::Recv::new(buf));
        }
    }
}

/// weight 12
fn receives_in_own_memory_whose_pool_goes(
    w: &World,
    qp: &mut Qp<T, AnyPostsRecvs, AnyProfile>,
    pool: PoolIn<M>,
) -> Option<PoolIn<M>> {
    let goes = w.pick(0, [true, false]);
    let n = w.pick(0, [1, 2, 8]);
    for _ in 0..n {
        if let Some(buf) = pool.take() {
            w.posted(qp.post_recv(wr::Recv::new(buf)));
        }
    }
    if goes {
        drop(pool);
        None
    } else {
        Some(pool)
    }
}

/// weight 10; open
fn region_in_memory(
    w: &World,
    pd: &Pd,
    memory: AnyMemory,
) -> (Option<Region<AnyOpen, AnyMemory>>, Option<AnyMemory>) {
    let mut memory = memory;
    memory.wipe();
    match pd.region::<AnyOpen>().create_in(memory) {
        Ok(region) => (Some(region), None),
        Err(refused) => (None, Some(refused.into_object())),
    }
}

/// weight 3
fn shared_mapping_read_at(w: &World, memory: &mut SharedMapping) {
    let from = w.pick(0, [0, 3, 8, 508, usize::MAX]);
    let mut some = [0; 9];
    let _ = (memory.read_at(from, &mut some), memory.write_at(from, &some));
    if memory.is_empty() || !memory.is_sealed() || memory.read_at(memory.len(), &mut some).is_ok() {
        w.complain("a memfd has the wrong length, or is not sealed")
    }
}

/// weight 3; open
fn table(w: &World, pd: &Pd) -> Option<Table> {
    w.table(pd)
}

/// weight 6
fn its_slice(w: &World, table: &Table) -> Option<Slice<RemoteRead>> {
    Some(table.remote())
}

/// weight 2
fn a_table_ends(w: &World, table: Table) {
    if table.destroy().is_ok_and(|it| it.iter().any(|word| *word != it[0])) {
        w.complain("a table was written")
    }
}

/// weight 5
fn a_forged_slice(w: &World, remote: Slice<A>) -> Option<Slice<A>> {
    let key = w.pick(0, [0, 0, 0, 1, 0x100]);
    let len = w.pick(0, [0, 8, 64, 0x8000_0000, u64::MAX]);
    let off = w.pick(0, [0, 8, 56, u64::MAX]);
    Some(RemoteSlice::<A>::from_parts(remote.addr().wrapping_add(off), len, remote.rkey() ^ key))
}

/// weight 3; panics
fn contexts_that_are_counted_and_a_panic_amid(w: &World, pd: &Pd) {
    let n = w.pick(0, [0, 1, 3, 9]);
    let mut most = n;
    let _ = pd
        .pool(64)
        .contexts(|_| {
            if most == 0 {
                planned()
            }
            most -= 1;
            w.counted()
        })
        .create_in(vec![0u8; 256])
        .map(|pool| drop((pool.take(), pool)));
}
