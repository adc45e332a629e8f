// Proves R8.13, ibv_modify_qp(3): no alternate path on ud.
// Enforced by the fields of `UdReturn`.
use proverbs::prelude::*;
use proverbs::{ext::path_migration::AlternatePath, qp::UdReturn};

fn give(qp: QueuePair<Ud, Rts>, other: AddressVector) {
    let alternate = Some(AlternatePath::new(other));
    qp.modify(UdReturn { qkey: None, alternate }).unwrap();
}

fn main() {}
