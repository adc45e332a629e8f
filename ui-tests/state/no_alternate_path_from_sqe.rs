// Proves R8.13, ibv_modify_qp(3): no alternate path from SQE to RTS.
// Enforced by the rows of `Transition`.
use proverbs::prelude::*;
use proverbs::{ext::path_migration::Migration, qp::{UcReturn, UcRtsOptional}};

fn rearm(qp: QueuePair<Uc, Sqe>) {
    let optional = UcRtsOptional { migration: Some(Migration::Rearm), ..Default::default() };
    qp.modify(UcReturn(optional)).unwrap();
}

fn main() {}
