// Proves R8.3, ibv_modify_qp(3): no path mtu on ud.
// Enforced by the fields of `UdRtr`.
use proverbs::prelude::*;

fn to_rtr(qp: QueuePair<Ud, Init>, path_mtu: Mtu) {
    qp.modify(UdRtr { path_mtu, ..Default::default() }).unwrap();
}

fn main() {}
