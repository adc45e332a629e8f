// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn ready(qp: QueuePair<Rc, Rtr>) -> Result<QueuePair<Rc, Rts>, proverbs::Error> {
    Ok(qp.modify(RcRts::new(Psn::try_from(7)?, ReadDepth::ONE))?)
}
