// R8.3, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn to_init(qp: QueuePair<Rc, Reset>, access: QpAccess) {
    qp.modify(ConnectedInit { pkey_index: 0, port: 1, access }).unwrap();
}
