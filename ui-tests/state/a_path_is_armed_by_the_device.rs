// Proves R24.10, ibv_modify_qp(3): only the device sets ARMED; a program cannot request it.
// Enforced by `Migration`, which has what a program may ask for.
use proverbs::prelude::*;
use proverbs::{ext::path_migration::{Migration, MigrationState}, qp::{RcReturn, RcRtsOptional}};

fn armed(qp: QueuePair<Rc, Rts>) {
    let migration = Some(Migration::Armed);
    let _ = qp.modify(RcReturn(RcRtsOptional { migration, ..Default::default() }));
}

fn as_it_was_told(qp: QueuePair<Rc, Rts>) {
    let migration = Some(MigrationState::Armed);
    let _ = qp.modify(RcReturn(RcRtsOptional { migration, ..Default::default() }));
}

fn main() {}
