// R8.2, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn to_rtr(qp: QueuePair<Uc, Init>, address: AddressVector, dest_qpn: Qpn, rq_psn: Psn) {
    let path_mtu = Mtu::Bytes1024;
    let optional = Default::default();
    qp.modify(UcRtr { address, path_mtu, dest_qpn, rq_psn, optional }).unwrap();
}
