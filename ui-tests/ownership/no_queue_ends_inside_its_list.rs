// Proves R11.1, ibv_post_send(3): no queue ends while a list for it is put together.
// Enforced by `Unfinished`, which keeps the queue borrowed on each way out of the macro.
use proverbs::prelude::*;
use proverbs::qp::Max;

fn reset(qp: QueuePair<Rc, Rts>, one: Buf, two: Option<Buf>) -> Option<QueuePair<Rc, Reset>> {
    let mut qp = qp;
    let _ = post_send!(
        qp,
        [wr::Send::new(one), {
            let Some(two) = two else { return qp.reset().ok() };
            wr::Send::new(two)
        }]
    );
    None
}

fn destroy(qp: QueuePair<Rc, Rts>, one: Buf, two: Option<Buf>) {
    let mut qp = qp;
    let _ = post_recv!(
        qp,
        [wr::Recv::new(one), {
            let Some(two) = two else { return drop(qp.destroy()) };
            wr::Recv::new(two)
        }]
    );
}

fn end(srq: SharedReceiveQueue<Rc, Buf, Max<1>>, one: Buf, two: Option<Buf>) {
    let mut srq = srq;
    let _ = post_srq_recv!(
        srq,
        [wr::Recv::new(one), {
            let Some(two) = two else { return drop(srq) };
            wr::Recv::new(two)
        }]
    );
}

fn main() {}

// No queue pair ends inside its own posting macro, so no buffer returns twice.
