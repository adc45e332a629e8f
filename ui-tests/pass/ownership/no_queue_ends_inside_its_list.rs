// R11.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::Max;

fn reset(qp: QueuePair<Rc, Rts>, one: Buf, two: Option<Buf>) -> Option<QueuePair<Rc, Reset>> {
    let mut qp = qp;
    let Some(two) = two else { return qp.reset().ok() };
    let _ = post_send!(qp, [wr::Send::new(one), wr::Send::new(two)]);
    None
}

fn destroy(qp: QueuePair<Rc, Rts>, one: Buf, two: Option<Buf>) {
    let mut qp = qp;
    let Some(two) = two else { return drop(qp.destroy()) };
    let _ = post_recv!(qp, [wr::Recv::new(one), wr::Recv::new(two)]);
}

fn end(srq: SharedReceiveQueue<Rc, Buf, Max<1>>, one: Buf, two: Option<Buf>) {
    let mut srq = srq;
    let Some(two) = two else { return drop(srq) };
    let _ = post_srq_recv!(srq, [wr::Recv::new(one), wr::Recv::new(two)]);
}
