// R8.3, ibv_modify_qp(3): the legal twin of ui-tests/state/no_path_mtu_on_ud.rs.
use proverbs::prelude::*;

fn to_rtr(qp: QueuePair<Ud, Init>) {
    qp.modify(UdRtr { ..Default::default() }).unwrap();
}
