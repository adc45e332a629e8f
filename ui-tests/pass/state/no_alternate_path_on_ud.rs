// R8.13, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::{
    ext::path_migration::AlternatePath,
    qp::{UcReturn, UcRtsOptional},
};

fn give(qp: QueuePair<Uc, Rts>, other: AddressVector) {
    let alternate = Some(AlternatePath::new(other));
    qp.modify(UcReturn(UcRtsOptional { alternate, ..Default::default() })).unwrap();
}
