//! The safe path on queues whose every work request completes: the buffer is the wr_id.

use std::mem::ManuallyDrop;

use proverbs::*;

use crate::form::{Checked, Slots, completed_badly, form, poll_failed, take};
use crate::twin::MOST;
use crate::world::{Gather, World};

pub type All = World<DefaultProfile>;
type Datagrams = World<DefaultProfile, Ud, Destination>;
type Lists = World<Gather>;

/// What receives from a shared queue.
pub struct Shared {
    pub srq: SharedReceiveQueue<Rc>,
    pub cq: CompletionQueue,
    pub bufs: [ManuallyDrop<Buf>; MOST],
}

macro_rules! one {
    ($name:ident($w:ident: $type:ty) $wr:expr) => {
        form! { $name($w: $type) $w.qp.post_send($wr).code() }
    };
}

one! { send(w: All) Send::new(take(&w.bufs[0])) }
one! { send_imm(w: All) SendWithImm::new(take(&w.bufs[0]), w.imm_data) }
one! { write(w: All) RdmaWrite::new(take(&w.bufs[0]), w.at) }
one! { write_imm(w: All) RdmaWriteWithImm::new(take(&w.bufs[0]), w.at, w.imm_data) }
one! { read(w: All) RdmaRead::new(take(&w.bufs[0]), w.from) }
one! { cas(w: All) CmpAndSwp::new(take(&w.bufs[0]), w.cell, w.operands) }
one! { faa(w: All) FetchAndAdd::new(take(&w.bufs[0]), w.cell, w.add) }
one! { inline_send(w: All) Send::inline(&w.payload) }
one! { inline_write(w: All) RdmaWrite::inline(&w.payload, w.at) }
one! { ud_send(w: Datagrams) Send::new(take(&w.bufs[0])).to(w.extra) }
one! { sge2(w: Lists) RdmaWrite::new([take(&w.bufs[0]), take(&w.bufs[1])], w.at) }
one! { sge4(w: Lists) RdmaWrite::new([0, 1, 2, 3].map(|i: usize| take(&w.bufs[i])), w.at) }

macro_rules! chain {
    ($name:ident: $($i:literal)*) => {
        form! { $name(w: All)
            post_send!(w.qp, [$(RdmaWrite::new(take(&w.bufs[$i]), w.at)),*]).code()
        }
    };
}
chain! { chain2: 0 1 }
chain! { chain4: 0 1 2 3 }
chain! { chain8: 0 1 2 3 4 5 6 7 }
chain! { chain16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
chain! { chain32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 }

form! { mixed4(w: All) post_send!(w.qp, [
    RdmaWrite::new(take(&w.bufs[0]), w.at),
    Send::inline(&w.payload),
    RdmaRead::new(take(&w.bufs[2]), w.from),
    FetchAndAdd::new(take(&w.bufs[3]), w.cell, w.add),
]).code() }

#[inline(always)]
fn pushed(w: &mut All) -> Result<(), PostError<Buf>> {
    let mut slots = SendSlots::<16>::new();
    let mut list = w.qp.send_list(&mut slots);
    for buf in &w.bufs[..w.n.min(16)] {
        list.push(RdmaWrite::new(take(buf), w.at))?;
    }
    list.post()
}

form! { list4of16(w: All) pushed(w).code() }

form! { recv1(w: All) w.qp.post_recv(Recv::new(take(&w.bufs[0]))).code() }
form! { srq1(w: Shared) w.srq.post_srq_recv(Recv::new(take(&w.bufs[0]))).code() }

macro_rules! receives {
    ($name:ident $type:ty, $post:ident $queue:ident: $($i:literal)*) => {
        form! { $name(w: $type) $post!(w.$queue, [$(Recv::new(take(&w.bufs[$i]))),*]).code() }
    };
}
receives! { recv16 All, post_recv qp: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
receives! { srq16 Shared, post_srq_recv srq: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }

macro_rules! poll_one {
    ($w:ident) => {
        match $w.cq.poll_one() {
            Ok(None) => 0,
            Ok(Some(completion)) => {
                // Whatever the status, the buffer is back.
                let status = completion.status();
                if let Some(buf) = completion.into_entry() {
                    Slots::of(&mut $w.bufs).put(buf);
                }
                status.map_or_else(completed_badly, |()| 0)
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
        let mut slots = Slots::of(&mut $w.bufs);
        let mut code = 0;
        completions.for_each(|completion| {
            // Whatever the status, the buffer is back.
            let status = completion.status();
            if let Some(buf) = completion.into_entry() {
                slots.put(buf);
            }
            if let Err(error) = status {
                code = completed_badly(error);
            }
        });
        code
    }};
}

form! { poll1(w: All) poll_one!(w) }
form! { poll16(w: All) poll_all!(w) }

form! { cycle(w: All) {
    match w.qp.post_send(RdmaWrite::new(take(&w.bufs[0]), w.at)).code() {
        0 => poll_one!(w),
        code => code,
    }
}}

form! { cycle4(w: All) {
    let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| RdmaWrite::new(take(&w.bufs[i]), w.at));
    match post_send!(w.qp, [a, b, c, d]).code() {
        0 => poll_all!(w),
        code => code,
    }
}}
