// R8.3, ibv_modify_qp(3): the legal twin of ui-tests/state/no_qkey_on_rc.rs.
use proverbs::prelude::*;

fn to_init(qp: QueuePair<Rc, Reset>, access: QpAccess) {
    qp.modify(ConnectedInit { pkey_index: 0, port: 1, access }).unwrap();
}
