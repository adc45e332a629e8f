//! Queue pairs from their creation to their end.

use std::mem;

use proverbs::prelude::*;
use proverbs::raw::AsRaw;

use super::{Family, Row, leak, row};
use crate::c::ibv_sge;
use crate::ends::{self, Ends};
use crate::stub::Form;
use crate::twin::{MOST, Twin};
use crate::world::*;

/// The forms of `ends`, as the stub calls them.
mod forms {
    use crate::ends::{self, Ends, code};
    use crate::form::form;

    form! { drained(ends: Ends) code(ends::drained(ends)) }
    form! { outstanding(ends: Ends) code(ends::outstanding(ends)) }
}

pub(super) fn drained() -> Family {
    family(true, 0, "drained", forms::drained)
}

/// Beside so many buffers that others have.
pub(super) fn outstanding(idle: usize) -> Family {
    let name = if idle == 0 { "outstanding" } else { "outstanding_beside_65536" };
    family(false, idle, name, forms::outstanding)
}

fn family(completes: bool, idle: usize, name: &'static str, rust: Form) -> Family {
    let ground = Ground::of_stub();
    let others = ground.pd.create_pool(idle.max(1), 64).expect("a pool");
    let idle = (0..idle).map(|_| others.take().expect("a buffer")).collect();
    let cq: CompletionQueue = ground.cq();
    let qp = connected::<DefaultProfile>(&ground, &cq, 16);
    let bufs = ground.bufs();
    let none = ibv_sge { addr: 0, length: 0, lkey: 0 };
    let twin = Twin::new([none; MOST], ground.addresses(&bufs), 16);
    twin.qp = qp.as_raw().cast();
    twin.cq = cq.as_raw().cast();
    // SAFETY: a live queue pair.
    twin.pd = unsafe { (*qp.as_raw()).pd.cast() };
    twin.peer = qp.qp_num();
    let remote = ground.remote();
    (twin.to.addr, twin.to.rkey) = (remote.addr(), remote.rkey());
    let mut bufs = bufs.into_iter();
    let used = std::array::from_fn(|_| bufs.next().map(mem::ManuallyDrop::into_inner));
    mem::forget(qp);
    Family {
        name: "ends",
        twins: &["c0"],
        signal_all: completes,
        holds: false,
        world: leak(Ends { ground, cq, at: remote.write(), bufs: used, _idle: idle }),
        restore: Some(|ends| {
            // SAFETY: the world of this family.
            ends::restore(unsafe { &mut *ends.cast::<Ends>() });
        }),
        twin,
        rows: vec![Row {
            twin: if completes { "drained" } else { "outstanding" },
            has_floor: false,
            ..row(name, rust)
        }],
    }
}
