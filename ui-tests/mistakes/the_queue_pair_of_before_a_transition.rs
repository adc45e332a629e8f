// A mistake: the program uses the queue pair that `modify` took.
use proverbs::prelude::*;

fn connect(qp: QueuePair<Rc, Init>, rtr: RcRtr) -> Result<u32, proverbs::Error> {
    qp.modify(rtr)?;
    Ok(qp.qp_num())
}

fn main() {}
