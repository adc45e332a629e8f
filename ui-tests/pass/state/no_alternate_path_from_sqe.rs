// R8.13, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::{
    ext::path_migration::Migration,
    qp::{UcResume, UcReturn, UcRtsOptional},
};

fn rearm(qp: QueuePair<Uc, Sqe>) {
    let optional = UcRtsOptional { migration: Some(Migration::Rearm), ..Default::default() };
    qp.modify(UcResume::default()).unwrap().modify(UcReturn(optional)).unwrap();
}
