// Proves R8.2, R4.4, ibv_modify_qp(3): no required attribute is left out.
// Enforced by the fields of `UcRtr`.
use proverbs::prelude::*;

fn to_rtr(qp: QueuePair<Uc, Init>, address: AddressVector, dest_qpn: Qpn, rq_psn: Psn) {
    let path_mtu = Mtu::Bytes1024;
    let optional = Default::default();
    qp.modify(UcRtr { address, path_mtu, dest_qpn, optional }).unwrap();
}

fn main() {}
