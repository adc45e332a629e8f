//! Work requests that are built once and posted many times: one post of each.

use std::ffi::{c_int, c_void};

use proverbs::memory::ToWrite;
use proverbs::prelude::*;
use proverbs::wr::{Placeholder, Prepared};

use super::{Family, Row, leak, restore, row, with};
use crate::form::{Checked, form, take};
use crate::stub::Stub;
use crate::twin::PAYLOAD;
use crate::world::*;

/// The work requests.
pub(super) struct Filled {
    pub send: Prepared<wr::Send, Placeholder>,
    pub write: Prepared<wr::RdmaWrite, Placeholder>,
    pub inline_send: Prepared<wr::Send, [u8; PAYLOAD]>,
}

type All = World<DefaultProfile, Rc, Filled>;

form! { send(w: All) w.qp.post_prepared(&mut w.extra.send, take(&w.bufs[0])).code() }
form! { write(w: All) w.qp.post_prepared(&mut w.extra.write, take(&w.bufs[0])).code() }
form! { inline_send(w: All) w.qp.post_prepared_inline(&mut w.extra.inline_send).code() }

/// The Rust work requests are built when they are created.
pub(super) unsafe extern "C" fn fill(_: *mut c_void) -> c_int {
    0
}

pub(super) fn filled(at: RemoteSpan<ToWrite>) -> Filled {
    Filled {
        send: wr::Send::new(Placeholder).prepare(),
        write: wr::RdmaWrite::new(Placeholder, at).prepare(),
        inline_send: wr::Send::inline(&BYTES).prepare(),
    }
}

pub(super) fn ready(stub: &Stub) -> Family {
    let ground = Ground::new();
    let cq = ground.cq();
    let qp = connected::<DefaultProfile>(&ground, &cq, DEPTH);
    let (world, twin) = ground.world(stub, qp, cq);
    let filled = filled(world.at);
    let filled_first = |row| Row { prime: Some(("ready_fill", fill)), ..row };
    Family {
        name: "prepared",
        twins: &["c0", "c2"],
        signal_all: true,
        holds: false,
        world: leak(with(world, filled)),
        restore: Some(restore::<DefaultProfile, Rc, Filled>),
        twin,
        rows: [
            Row { twin: "ready_send", ..row("send", send) },
            Row { twin: "ready_write", ..row("write", write) },
            Row { twin: "ready_inline_send", ..row("inline_send", inline_send) },
        ]
        .map(filled_first)
        .into(),
    }
}
