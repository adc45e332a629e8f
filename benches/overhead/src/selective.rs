//! The safe interface on send queues with selective signaling: a ring keeps the buffers.

use std::ffi::c_int;
use std::hint::black_box;

use proverbs::prelude::*;
use proverbs::qp::{Completed, Released};

use crate::form::{Checked, Slab, failed, failed_with, form, poll_failed, take};
use crate::posts::{chain, one, posts};
use crate::world::{Chosen, ChosenGather};

posts!(Chosen, ChosenGather);

macro_rules! signaled {
    ($name:ident: $($i:literal)*) => {
        form! { $name(w: All) {
            let at = w.at;
            post_send!(w.qp, [$(wr::RdmaWrite::new(take(&w.bufs[$i]), at).signaled()),*]).code()
        }}
    };
}
signaled! { signaled16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }

/// Completes, and stores the released buffers in the slots. Returns the error code.
macro_rules! complete {
    ($w:ident, $slots:ident, $completion:expr, $failed:expr) => {
        match $w.qp.complete($completion) {
            Ok(Completed { status: Ok(()), released }) => {
                released.for_each(|buf| $slots.put(buf));
                0
            }
            Ok(Completed { released, .. }) => failed_releasing(released),
            Err(completion) => $failed(completion),
        }
    };
}

/// The buffers return to their pool.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // used for its promise not to unwind
extern "C" fn failed_releasing(released: Released<'_, Buf>) -> c_int {
    drop(released);
    black_box(-3)
}

macro_rules! poll_one {
    ($w:ident) => {
        match $w.cq.poll_one() {
            Ok(None) => 0,
            Ok(Some(completion)) => {
                let mut slots = Slab::of(&mut $w.bufs);
                complete!($w, slots, completion, |one: Completion<'_, Buf>| failed_with(
                    one.into_entry()
                ))
            }
            Err(error) => poll_failed(error),
        }
    };
}

macro_rules! poll_all {
    ($w:ident) => {{
        let completions = match $w.cq.poll() {
            Ok(completions) => completions,
            Err(error) => return poll_failed(error),
        };
        let mut slots = Slab::of(&mut $w.bufs);
        let mut code = 0;
        completions.for_each(|completion| {
            let now = complete!($w, slots, completion, failed);
            if now != 0 {
                code = now;
            }
        });
        code
    }};
}

form! { poll1(w: All) poll_one!(w) }
form! { poll16(w: All) poll_all!(w) }
form! { release16(w: All) poll_one!(w) }

form! { cycle(w: All) {
    match w.qp.post_send(wr::RdmaWrite::new(take(&w.bufs[0]), w.at)).code() {
        0 => poll_one!(w),
        code => code,
    }
}}

form! { cycle4(w: All) {
    let at = w.at;
    let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| wr::RdmaWrite::new(take(&w.bufs[i]), at));
    match post_send!(w.qp, [a, b, c, d]).code() {
        0 => poll_all!(w),
        code => code,
    }
}}
