//! The safe interface on queues that signal every work request: the buffer is the wr_id.

use std::mem::ManuallyDrop;

use proverbs::prelude::*;

use crate::form::{Checked, Slab, failed_among, failed_with, form, poll_failed, take};
use crate::posts::{chain, one, posts};
use crate::twin::MOST;
use crate::world::{Counted, Gather, World};

posts!(DefaultProfile, Gather);

/// The objects of a program that receives from a shared queue.
pub struct Shared {
    pub srq: SharedReceiveQueue<Rc>,
    pub cq: CompletionQueue,
    pub bufs: [ManuallyDrop<Buf>; MOST],
}

#[inline(always)]
fn pushed_receives(w: &mut All, count: u32) -> Result<(), PostError<Buf>> {
    let mut slots = RecvSlots::<16>::new();
    let mut list = w.qp.recv_list(&mut slots);
    for buf in &w.bufs[..(count as usize).min(16)] {
        list.push(wr::Recv::new(take(buf)))?;
    }
    list.post()
}

#[inline(always)]
fn extended_receives(w: &mut All, count: u32) -> Result<(), PostError<Buf>> {
    let mut slots = RecvSlots::<16>::new();
    let mut list = w.qp.recv_list(&mut slots);
    list.extend(w.bufs[..(count as usize).min(16)].iter().map(|buf| wr::Recv::new(take(buf))))?;
    list.post()
}

form! { recv_push1of16(w: All) pushed_receives(w, w.counts[0]).code() }
form! { recv_push4of16(w: All) pushed_receives(w, w.counts[1]).code() }
form! { recv_push16of16(w: All) pushed_receives(w, w.counts[2]).code() }
form! { recv_iter1of16(w: All) extended_receives(w, w.counts[0]).code() }
form! { recv_iter4of16(w: All) extended_receives(w, w.counts[1]).code() }
form! { recv_iter16of16(w: All) extended_receives(w, w.counts[2]).code() }

form! { recv1(w: All) w.qp.post_recv(wr::Recv::new(take(&w.bufs[0]))).code() }
form! { srq1(w: Shared) w.srq.post_srq_recv(wr::Recv::new(take(&w.bufs[0]))).code() }

macro_rules! receives {
    ($name:ident $type:ty, $post:ident $queue:ident: $($i:literal)*) => {
        form! { $name(w: $type) $post!(w.$queue, [$(wr::Recv::new(take(&w.bufs[$i]))),*]).code() }
    };
}
receives! { recv16 All, post_recv qp: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
receives! { srq16 Shared, post_srq_recv srq: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }

/// Stores the buffer in the slots.
macro_rules! complete {
    ($slots:ident, $completion:ident, $failed:expr) => {
        match $completion.status() {
            Ok(()) => {
                if let Some(buf) = $completion.into_entry() {
                    $slots.put(buf);
                }
            }
            Err(_) => $failed,
        }
    };
}

macro_rules! poll_one {
    ($w:ident) => {
        match $w.cq.poll_one() {
            Ok(None) => 0,
            Ok(Some(completion)) => {
                let mut slots = Slab::of(&mut $w.bufs);
                complete!(slots, completion, return failed_with(completion.into_entry()));
                0
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
            complete!(slots, completion, failed_among(&mut code, completion.into_entry()));
        });
        code
    }};
}

form! { poll1(w: All) poll_one!(w) }
form! { poll16(w: All) poll_all!(w) }

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

/// The same with counters for an operator: the profile and the completion queue count.
pub mod counted {
    use super::*;

    type All = World<Counted>;

    one! { write(w: All) wr::RdmaWrite::new(take(&w.bufs[0]), w.at) }
    one! { inline_write(w: All) wr::RdmaWrite::inline(&w.payload, w.at) }
    chain! { chain16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
    form! { recv1(w: All) w.qp.post_recv(wr::Recv::new(take(&w.bufs[0]))).code() }
    form! { poll16(w: All) poll_all!(w) }
    form! { cycle(w: All) {
        match w.qp.post_send(wr::RdmaWrite::new(take(&w.bufs[0]), w.at)).code() {
            0 => poll_one!(w),
            code => code,
        }
    }}
}
