// A mistake: the program gives a number where its range is checked.
use proverbs::prelude::*;

fn ready(qp: QueuePair<Rc, Rtr>) -> Result<QueuePair<Rc, Rts>, proverbs::Error> {
    Ok(qp.modify(RcRts::new(7, ReadDepth::ONE))?)
}

fn main() {}
