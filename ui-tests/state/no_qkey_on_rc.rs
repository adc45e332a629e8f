// Proves R8.3, ibv_modify_qp(3): no qkey on rc.
// Enforced by the fields of `ConnectedInit`.
use proverbs::prelude::*;
use proverbs::qp::QpQkey;

fn to_init(qp: QueuePair<Rc, Reset>, access: QpAccess, qkey: QpQkey) {
    qp.modify(ConnectedInit { pkey_index: 0, port: 1, access, qkey }).unwrap();
}

fn main() {}
