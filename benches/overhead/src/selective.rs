//! The safe path on send queues where only some work requests complete: a ring keeps the buffers.

use proverbs::*;

use crate::form::{Checked, Slots, completed_badly, form, poll_failed, take};
use crate::world::{Chosen, World};

pub type Some_ = World<Chosen>;

form! { write(w: Some_) w.qp.post_send(RdmaWrite::new(take(&w.bufs[0]), w.at)).code() }
form! { send(w: Some_) w.qp.post_send(Send::new(take(&w.bufs[0]))).code() }
form! { inline_send(w: Some_) w.qp.post_send(Send::inline(&w.payload)).code() }

macro_rules! chain {
    ($name:ident: $($i:literal)*) => {
        form! { $name(w: Some_)
            post_send!(w.qp, [$(RdmaWrite::new(take(&w.bufs[$i]), w.at)),*]).code()
        }
    };
}
chain! { chain2: 0 1 }
chain! { chain4: 0 1 2 3 }
chain! { chain8: 0 1 2 3 4 5 6 7 }
chain! { chain16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
chain! { chain32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 }

form! { mixed4(w: Some_) post_send!(w.qp, [
    RdmaWrite::new(take(&w.bufs[0]), w.at),
    Send::inline(&w.payload),
    RdmaRead::new(take(&w.bufs[2]), w.from),
    FetchAndAdd::new(take(&w.bufs[3]), w.cell, w.add),
]).code() }

#[inline(always)]
fn pushed(w: &mut Some_) -> Result<(), PostError<Buf>> {
    let mut slots = SendSlots::<16>::new();
    let mut list = w.qp.send_list(&mut slots);
    for buf in &w.bufs[..w.n.min(16)] {
        list.push(RdmaWrite::new(take(buf), w.at))?;
    }
    list.post()
}

form! { list4of16(w: Some_) pushed(w).code() }

/// Completes what `$next` gives: its status, and the buffers that it releases.
macro_rules! complete {
    ($w:ident, $slots:ident, $completion:expr) => {
        match $w.qp.complete($completion) {
            Ok(done) => {
                if let Err(error) = done.status {
                    return completed_badly(error);
                }
                for buf in done.released {
                    $slots.put(buf);
                }
            }
            Err(_) => return -4,
        }
    };
}

macro_rules! poll_one {
    ($w:ident) => {
        match $w.cq.poll_one() {
            Ok(None) => 0,
            Ok(Some(completion)) => {
                let mut slots = Slots::of(&mut $w.bufs);
                complete!($w, slots, completion);
                0
            }
            Err(error) => poll_failed(error),
        }
    };
}

form! { poll1(w: Some_) poll_one!(w) }

form! { cycle(w: Some_) {
    match w.qp.post_send(RdmaWrite::new(take(&w.bufs[0]), w.at)).code() {
        0 => poll_one!(w),
        code => code,
    }
}}

form! { cycle4(w: Some_) {
    let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| RdmaWrite::new(take(&w.bufs[i]), w.at));
    match post_send!(w.qp, [a, b, c, d]).code() {
        0 => {
            let completions = match w.cq.poll() {
                Ok(completions) => completions,
                Err(error) => return poll_failed(error),
            };
            let mut slots = Slots::of(&mut w.bufs);
            for completion in completions {
                complete!(w, slots, completion);
            }
            0
        }
        code => code,
    }
}}
