//! Bookkeeping by the caller, typed: `post_send_unchecked`, chains, lists, and a shared receive
//! queue.

use proverbs::memory::Raw;
use proverbs::post::RawPostError;
use proverbs::prelude::*;

use crate::form::{Checked, completed_badly, form, poll_failed};
use crate::twin::MOST;
use crate::world::{Caller, World};

type Books = World<Caller>;
type Datagrams = World<Caller, Ud, wr::Destination>;

macro_rules! one {
    ($name:ident($w:ident) $wr:expr) => {
        form! { $name($w: Books) {
            // SAFETY: the stub does not use the work request after the post.
            unsafe { $w.qp.post_send_unchecked($wr) }.code()
        }}
    };
}

macro_rules! sge {
    ($w:ident, $($i:literal)*) => { wr::Sge::new($w.ids[first!($($i)*)], [$($w.pieces[$i]),*]) };
}

macro_rules! first {
    ($i:literal $($rest:literal)*) => {
        $i
    };
}

one! { send(w) wr::Send::new(sge!(w, 0)) }
one! { send_imm(w) wr::SendWithImm::new(sge!(w, 0), w.imm_data) }
one! { write(w) wr::RdmaWrite::new(sge!(w, 0), w.at) }
one! { write_imm(w) wr::RdmaWriteWithImm::new(sge!(w, 0), w.at, w.imm_data) }
one! { read(w) wr::RdmaRead::new(sge!(w, 0), w.from) }
one! { cas(w) wr::CmpAndSwp::new(sge!(w, 0), w.cell, w.operands) }
one! { faa(w) wr::FetchAndAdd::new(sge!(w, 0), w.cell, w.add) }
one! { inline_send(w) wr::Send::new(sge!(w, 0).inline()) }
one! { inline_write(w) wr::RdmaWrite::new(sge!(w, 0).inline(), w.at) }
one! { sge2(w) wr::RdmaWrite::new(sge!(w, 0 1), w.at) }
one! { sge4(w) wr::RdmaWrite::new(sge!(w, 0 1 2 3), w.at) }

form! { ud_send(w: Datagrams) {
    // SAFETY: the stub does not use the work request after the post.
    unsafe { w.qp.post_send_unchecked(wr::Send::new(sge!(w, 0)).to(w.extra)) }.code()
}}

form! { recv1(w: Books) {
    // SAFETY: the stub does not use the work request after the post.
    unsafe { w.qp.post_recv_unchecked(wr::Recv::new(sge!(w, 0))) }.code()
}}

macro_rules! chain {
    ($name:ident: $($i:literal)*) => {
        form! { $name(w: Books) {
            let at = w.at;
            // SAFETY: the stub does not use the work requests after the post.
            unsafe { post_send!(w.qp, [$(wr::RdmaWrite::new(sge!(w, $i), at)),*], unchecked) }.code()
        }}
    };
}
chain! { chain2: 0 1 }
chain! { chain4: 0 1 2 3 }
chain! { chain8: 0 1 2 3 4 5 6 7 }
chain! { chain16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
chain! { chain32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 }

form! { mixed4(w: Books) {
    // SAFETY: the stub does not use the work requests after the post.
    unsafe { post_send!(w.qp, [
        wr::RdmaWrite::new(sge!(w, 0), w.at),
        wr::Send::new(sge!(w, 1).inline()),
        wr::RdmaRead::new(sge!(w, 2), w.from),
        wr::FetchAndAdd::new(sge!(w, 3), w.cell, w.add),
    ], unchecked) }.code()
}}

/// WRITEs, the last one with immediate data.
#[inline(always)]
fn kinds(w: &mut Books) -> Result<(), RawPostError> {
    let (at, imm_data) = (w.at, w.imm_data);
    let mut slots = SendSlots::<16>::new();
    let n = (w.counts[1] as usize).min(16);
    let (ids, pieces) = (&w.ids[..n], &w.pieces[..n]);
    let mut list = w.qp.raw_send_list(&mut slots);
    let Some(last) = n.checked_sub(1) else { return Ok(()) };
    for i in 0..last {
        list.push(wr::RdmaWrite::new(wr::Sge::new(ids[i], [pieces[i]]), at))?;
    }
    list.push(wr::RdmaWriteWithImm::new(wr::Sge::new(ids[last], [pieces[last]]), at, imm_data))?;
    // SAFETY: the stub does not use the work requests after the post.
    unsafe { list.post() }
}
form! { kinds4of16(w: Books) kinds(w).code() }

form! { sges(w: Books) {
    let pieces = wr::SgeList::new(w.ids[0], &w.pieces[..(w.counts[1] as usize).min(MOST)]);
    // SAFETY: the stub does not use the work request after the post.
    unsafe { w.qp.post_send_unchecked(wr::RdmaWrite::new(pieces, w.at)) }.code()
}}

/// A shared receive queue and its memory.
pub struct Shared {
    pub srq: SharedReceiveQueue<Rc, Raw>,
    pub pieces: [wr::Piece<'static>; MOST],
    pub ids: [u64; MOST],
}

form! { srq1(w: Shared) {
    // SAFETY: the stub does not use the work request after the post.
    unsafe { w.srq.post_srq_recv_unchecked(wr::Recv::new(sge!(w, 0))) }.code()
}}

#[inline(always)]
fn listed(w: &mut Books, count: u32) -> Result<(), RawPostError> {
    let at = w.at;
    let mut slots = SendSlots::<16>::new();
    let n = (count as usize).min(16);
    let (ids, pieces) = (&w.ids[..n], &w.pieces[..n]);
    let wr = |i: usize| wr::RdmaWrite::new(wr::Sge::new(ids[i], [pieces[i]]), at);
    // SAFETY: the stub does not use the work requests after the post.
    unsafe { w.qp.post_send_list_unchecked(&mut slots, n, wr) }
}
form! { list1of16(w: Books) listed(w, w.counts[0]).code() }
form! { list4of16(w: Books) listed(w, w.counts[1]).code() }
form! { list16of16(w: Books) listed(w, w.counts[2]).code() }

macro_rules! receives {
    ($name:ident $world:ident, $post:ident $queue:ident: $($i:literal)*) => {
        form! { $name(w: $world) {
            // SAFETY: the stub does not use the work requests after the post.
            unsafe { $post!(w.$queue, [$(wr::Recv::new(sge!(w, $i))),*], unchecked) }.code()
        }}
    };
}
receives! { srq16 Shared, post_srq_recv srq: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
receives! { recv16 Books, post_recv qp: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }

form! { poll1(w: Books) {
    match w.cq.poll_one() {
        Ok(None) => 0,
        Ok(Some(completion)) => {
            if let Err(error) = completion.status() {
                return completed_badly(error);
            }
            w.ids[0] = completion.raw_wr_id();
            0
        }
        Err(error) => poll_failed(error),
    }
}}

form! { poll16(w: Books) {
    let completions = match w.cq.poll() {
        Ok(completions) => completions,
        Err(error) => return poll_failed(error),
    };
    let mut at = w.ids.as_mut_ptr();
    let mut code = 0;
    completions.for_each(|completion| {
        if let Err(error) = completion.status() {
            code = completed_badly(error);
        }
        // SAFETY: a poll returns at most 16 completions, and there is room for 32.
        unsafe {
            at.write(completion.raw_wr_id());
            at = at.add(1);
        }
    });
    code
}}

form! { cycle(w: Books) {
    // SAFETY: the stub does not use the work request after the post.
    let posted = unsafe { w.qp.post_send_unchecked(wr::RdmaWrite::new(sge!(w, 0), w.at)) };
    let code = posted.code();
    if code != 0 {
        return code;
    }
    match w.cq.poll_one() {
        Ok(None) => 0,
        Ok(Some(completion)) => {
            if let Err(error) = completion.status() {
                return completed_badly(error);
            }
            w.ids[0] = completion.raw_wr_id();
            0
        }
        Err(error) => poll_failed(error),
    }
}}
