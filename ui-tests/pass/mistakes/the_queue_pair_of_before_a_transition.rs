// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn connect(qp: QueuePair<Rc, Init>, rtr: RcRtr) -> Result<u32, proverbs::Error> {
    let qp = qp.modify(rtr)?;
    Ok(qp.qp_num())
}
