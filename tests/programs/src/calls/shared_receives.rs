//! Shared receive queues.

use super::*;

/// weight 2; kin pd pool
fn create_srq(w: &World, pd: &Pd, pool: &Pool) -> Option<Srq<AnyShares>> {
    w.made(pd.create_srq::<AnyShares, Buf, Max<1>, _>(pool))
}

/// weight 15
fn shared_receive_queue_post_srq_recv(w: &World, srq: &mut Srq<T>, buf: Buf) {
    w.posted(srq.post_srq_recv(wr::Recv::new(buf)));
}

/// weight 5
fn post_srq_recv_empty(w: &World, srq: &mut Srq<T>, buf: Buf) {
    w.posted(srq.post_srq_recv(wr::Recv::empty().with_context(buf)));
}

/// weight 25
fn post_srq_recv_several(w: &World, srq: &mut Srq<T>, pool: &Pool) {
    let n = w.pick(0, [1, 2, 4, 8]);
    for _ in 0..n {
        if let Some(buf) = pool.take() {
            w.posted(srq.post_srq_recv(wr::Recv::new(buf)));
        }
    }
}

/// weight 6
fn post_srq_recv_macro(w: &World, srq: &mut Srq<T>, one: Buf, two: Buf) -> Option<Rejected<Buf>> {
    w.kept(post_srq_recv!(srq, [wr::Recv::new(one), wr::Recv::new(two)]))
}

/// weight 3
fn shared_receive_queue_query(w: &World, srq: &mut Srq<T>) {
    let n = w.pick(0, [0, 1, 3]);
    if srq.recvs_outstanding() > BUFFERS {
        w.complain("more receives are outstanding than there are buffers")
    }
    let _ = (srq.id(), srq.query(), srq.arm_limit(n));
}

/// weight 3
fn shared_receive_queue_destroy(w: &World, srq: Srq<T>) -> Option<Srq<T>> {
    srq.destroy().err().map(|refused| refused.into_object())
}
