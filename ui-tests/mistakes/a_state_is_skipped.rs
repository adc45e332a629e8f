// A mistake: the program moves a queue pair from RESET to RTR, without INIT.
use proverbs::prelude::*;

fn connect(qp: QueuePair<Rc, Reset>, rtr: RcRtr) -> Result<(), proverbs::Error> {
    qp.modify(rtr)?;
    Ok(())
}

fn main() {}
