// R8.21, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::{Drain, RcReturn, RcSqd};

fn back(qp: QueuePair<Rc, Rts>) {
    qp.modify(Drain::default()).unwrap().into_sqd().unwrap().modify(RcReturn::default()).unwrap();
}

fn change(qp: QueuePair<Rc, Rts>) {
    qp.modify(Drain::default()).unwrap().into_sqd().unwrap().modify(RcSqd::default()).unwrap();
}
