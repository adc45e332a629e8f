// R24.10, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::{
    ext::path_migration::{Migration, MigrationState},
    qp::{RcReturn, RcRtsOptional},
};

fn armed(qp: QueuePair<Rc, Rts>) {
    let migration = Some(Migration::Rearm);
    let _ = qp.modify(RcReturn(RcRtsOptional { migration, ..Default::default() }));
}

fn as_it_was_told(qp: &QueuePair<Rc, Rts>) -> bool {
    qp.query_paths().unwrap().migration == Some(MigrationState::Armed)
}
