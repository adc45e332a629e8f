// R22.2, ibv_modify_qp_rate_limit(3): the legal twin of the test of this name.
use proverbs::device::{Can, PacketPacing};
use proverbs::prelude::*;

fn early(qp: &mut QueuePair<Rc, Rts>, can: &Can<PacketPacing<Rc>>) {
    let _ = qp.limit_rate(can, None);
}

fn other(qp: &mut QueuePair<Uc, Rts>, can: &Can<PacketPacing<Uc>>) {
    let _ = qp.limit_rate(can, None);
}
