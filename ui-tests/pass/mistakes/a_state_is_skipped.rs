// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn connect(qp: QueuePair<Rc, Reset>, rtr: RcRtr) -> Result<(), proverbs::Error> {
    qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() })?.modify(rtr)?;
    Ok(())
}
