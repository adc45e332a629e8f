// R8.1, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Mine {} }

fn init(qp: QueuePair<Rc, Reset, Mine>) -> Result<QueuePair<Rc, Init, Mine>, proverbs::Error> {
    Ok(qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?)
}
