//! One-sided.

use super::*;

/// weight 14
fn rdma_write_new(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>,
    buf: Buf,
    remote: Slice<AnyWritable>,
) {
    w.opens(remote);
    w.posted(qp.post_send(wr::RdmaWrite::new(buf, remote.write())));
}

/// weight 8
fn rdma_write_with_imm_new(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyQuiet>,
    buf: Buf,
    remote: Slice<AnyWritable>,
) {
    w.opens(remote);
    let _ = (
        qp.post_send(wr::RdmaWriteWithImm::new(buf, remote.write(), 3)),
        qp.post_send(wr::RdmaWrite::inline(&[1, 2, 3], remote.write())),
        qp.post_send(wr::RdmaWrite::inline_slice(&[7; 12], remote.write())),
        qp.post_send(wr::RdmaWriteWithImm::inline(&[5; 9], remote.write(), 3)),
        qp.post_send(wr::RdmaWriteWithImm::inline_slice(&[6], remote.write(), 4)),
    );
}

/// weight 8
fn rdma_write_inline_list(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnySeveral>,
    remote: Slice<AnyWritable>,
) {
    let byte = w.pick(0, [5, 6]);
    w.opens(remote);
    let _ = (
        qp.post_send(wr::RdmaWrite::inline_list([&[1, 2, 3], &[byte; 9]], remote.write())),
        qp.post_send(wr::RdmaWriteWithImm::inline_list([&[], &[byte]], remote.write(), 3)),
    );
}

/// weight 10
fn rdma_read_new(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, AnyQuiet>,
    buf: Buf,
    remote: Slice<AnyReadable>,
) {
    w.reads(remote.len());
    w.posted(qp.post_send(wr::RdmaRead::new(buf, remote.read()).fence()));
}

/// weight 8
fn fetch_and_add_new(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, AnyQuiet>,
    one: Buf,
    two: Buf,
    remote: Slice<AnyAtomic>,
) {
    let at = w.pick(0, [0, 8, 3]);
    if let (Ok(at), Ok(part)) = (remote.atomic(at), remote.slice(at, 8)) {
        w.opens(part);
        let short = (one.capacity() < 8, two.capacity() < 8);
        let posted = (
            qp.post_send(wr::FetchAndAdd::new(one, at, 3)).is_ok(),
            qp.post_send(wr::CmpAndSwp::new(two, at, wr::CompareSwap { compare: 3, swap: 9 }))
                .is_ok(),
        );
        if short.0 && posted.0 || short.1 && posted.1 {
            w.complain("an atomic was posted with a buffer shorter than 8 bytes")
        }
    }
}

/// weight 8
fn atomic_write_new(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, AnyDirect>,
    remote: Slice<AnyWritable>,
) {
    let all = w.pick(0, [true, false]);
    let at = w.pick(0, [0, 8, 3]);
    let flushes = w.pick(0, [true, false, false]);
    if let (Ok(at), Ok(part)) = (remote.write_cell(at), remote.slice(at, 8)) {
        w.opens(part);
        w.posted(qp.post_send(ext::persistence::AtomicWrite::new(at, [9; 8])));
    }
    let right = RemoteSlice::<Persistent<RemoteWrite>>::from_parts(
        remote.addr(),
        remote.len(),
        remote.rkey(),
    );
    let flush = if all {
        right.flush_global().map(|flush| flush.whole_region())
    } else {
        right.flush_persistent()
    };
    if let Ok(flush) = flush {
        if flushes {
            w.posted(qp.post_send(ext::persistence::Flush::new(flush).fence()));
        }
    }
}
