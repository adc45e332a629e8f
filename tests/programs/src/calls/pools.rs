//! Pools and buffers.

use super::*;

/// weight 2
fn create_pool(w: &World, pd: &Pd) -> Option<Pool> {
    let size = w.pick(0, [64, 64, 200, 41]);
    w.pool(pd, size)
}

/// weight 20
fn pool_take(w: &World, pool: &Pool) -> Option<Buf> {
    let len = w.pick(0, [0, 1, 8, 24, 64]);
    let tag = w.pick(0, [1, 17, 200]);
    pool.take().map(|buf| tagged(buf, len, tag))
}

/// weight 2
fn count(w: &World, pool: &Pool) {
    if pool.available() > pool.count() {
        w.complain("more buffers are free than there are")
    }
}

/// weight 3
fn pool_reclaim(w: &World, pool: &Pool, cq: &mut Cq<E>) {
    let _ = pool.reclaim(cq);
}

/// weight 1
fn pool_destroy(w: &World, pool: Pool) -> Option<Pool> {
    pool.destroy().err().map(|refused| refused.into_object())
}

/// weight 2
fn buf_capacity(w: &World, buf: &Buf) {
    if buf.len() > buf.capacity() {
        w.complain("a buffer is longer than it can be")
    }
    let () = buf.context();
}

/// weight 3
fn set_len(w: &World, buf: &mut Buf) {
    let byte = w.pick(0, [1, 2]);
    let len = w.pick(0, [0, 3, 1000]);
    let _ = buf.copy_from(&[byte]);
    buf.set_len(len);
    *buf.context_mut() = ();
    for (i, byte) in buf.iter_mut().enumerate() {
        *byte = i as u8
    }
}

/// weight 4
fn freeze(w: &World, buf: Buf) -> Option<SharedBuf> {
    Some(buf.freeze())
}

/// weight 3
fn share(w: &World, buf: Buf) -> (Option<SharedBuf>, Option<SharedBuf>) {
    let n = w.pick(0, [0, 1, 2, 5]);
    let mut shares = buf.share(n);
    (shares.next(), shares.next())
}

/// weight 4
fn shared_buf_clone(w: &World, shared: &SharedBuf) -> Option<SharedBuf> {
    let other = shared.clone();
    if other[..] != shared[..] {
        w.complain("a clone has other bytes")
    }
    Some(other)
}

/// weight 4
fn buf_list_new(w: &World, one: Buf, two: Buf) -> Option<BufList> {
    let mut list = BufList::new();
    list.push_front(one);
    list.push_front(two);
    Some(list)
}

/// weight 5
fn pop_front(w: &World, list: &mut BufList) -> Option<Buf> {
    if list.is_empty() != (list.len() == 0) {
        w.complain("a list has the wrong length")
    }
    list.pop_front()
}

/// weight 3
fn buf_list_iterator(w: &World, list: BufList) -> Option<Vec<Buf>> {
    list.segments().for_each(|bytes| {
        let _ = bytes.len();
    });
    Some(list.collect::<Vec<_>>())
}

/// weight 6
fn into_buf(w: &World, any: AnyBuf) -> Option<Buf> {
    any.into_buf()
}

/// weight 2
fn into_list(w: &World, any: AnyBuf) -> Option<BufList> {
    any.into_list()
}
