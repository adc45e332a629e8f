// Proves R8.21: the way back to RTS, and changes, only once the send queue has drained.
// Enforced by `Transition`.
use proverbs::prelude::*;
use proverbs::qp::{Drain, RcReturn, RcSqd};

fn back(qp: QueuePair<Rc, Rts>) {
    qp.modify(Drain::default()).unwrap().modify(RcReturn::default()).unwrap();
}

fn change(qp: QueuePair<Rc, Rts>) {
    qp.modify(Drain::default()).unwrap().modify(RcSqd::default()).unwrap();
}

fn main() {}
