// ibv_post_send(3): the macros work where unsafe code is forbidden.
#![forbid(unsafe_code)]
use proverbs::prelude::*;

profile! { pub Asked { signaling: Selective } }

pub fn lists(qp: &mut QueuePair<Rc, Rts, Asked>, srq: &mut SharedReceiveQueue<Rc>, pool: &Pool) {
    post_send!(qp, [wr::Send::new(pool.take().unwrap()), wr::Send::inline(b"twice")]).unwrap();
    let _unsettled = post_send!(qp, [wr::Send::new(wr::Empty)], unsignaled).unwrap();
    post_recv!(qp, [wr::Recv::new(pool.take().unwrap()), wr::Recv::empty()]).unwrap();
    post_srq_recv!(srq, [wr::Recv::new(pool.take().unwrap())]).unwrap();
}
