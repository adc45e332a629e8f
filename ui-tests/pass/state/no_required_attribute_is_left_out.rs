// R8.2, ibv_modify_qp(3): the legal twin of ui-tests/state/no_required_attribute_is_left_out.rs.
use proverbs::prelude::*;

fn to_rtr(qp: QueuePair<Uc, Init>, address: AddressVector, dest_qpn: Qpn, rq_psn: Psn) {
    let path_mtu = Mtu::Bytes1024;
    let optional = Default::default();
    qp.modify(UcRtr { address, path_mtu, dest_qpn, rq_psn, optional }).unwrap();
}
