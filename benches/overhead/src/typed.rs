//! The caller's books, typed: `post_send_unchecked`, and chains as a macro of it would expand.

use proverbs::post::RawPostError;
use proverbs::prelude::*;

use crate::form::{Checked, completed_badly, form, poll_failed};
use crate::world::{Caller, World};

type Books = World<Caller>;
type Datagrams = World<Caller, Ud, wr::Destination>;

/// `post_send!` for the `unsafe` path, which has no such macro yet.
macro_rules! post_unchecked {
    ($qp:expr, $begin:ident, [$head:expr $(, $tail:expr)* $(,)?]) => {{
        // SAFETY: what `emit` gives is dropped: nothing of the `unsafe` path owns anything.
        let mut post = unsafe { $qp.$begin().vouch() };
        let wr = $head;
        let mut slot = post.slot(&wr);
        let at = &raw mut slot;
        emit!($begin post 0, wr, at, std::ptr::null_mut());
        post_unchecked!(@next $begin post at at 1u32, [$($tail),*])
    }};
    (@next $begin:ident $post:ident $first:ident $prev:ident $i:expr, [$head:expr $(, $tail:expr)*]) => {{
        let wr = $head;
        let mut slot = $post.slot(&wr);
        let at = &raw mut slot;
        emit!($begin $post $i, wr, at, $prev.cast());
        post_unchecked!(@next $begin $post $first at $i + 1, [$($tail),*])
    }};
    (@next $begin:ident $post:ident $first:ident $last:ident $i:expr, []) => {
        // SAFETY: all were emitted in order into slots that are still there; the stub reads them at
        // once.
        unsafe { $post.post_raw([], $first.cast(), $last.cast()) }
    };
}

macro_rules! emit {
    (begin_send $post:ident $i:expr, $wr:expr, $at:expr, $prev:expr) => {
        let before = $post.start();
        // SAFETY: the slot is a local that stays until the post.
        let _ = unsafe { $post.emit($i, false, before, $wr, $at, $prev) };
    };
    (begin_recv $post:ident $i:expr, $wr:expr, $at:expr, $prev:expr) => {
        // SAFETY: the slot is a local that stays until the post.
        let _ = unsafe { $post.emit($wr, $at, $prev) };
    };
}

macro_rules! one {
    ($name:ident($w:ident) $wr:expr) => {
        form! { $name($w: Books) {
            // SAFETY: the stub is done with the work request when the post returns.
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
    // SAFETY: the stub is done with the work request when the post returns.
    unsafe { w.qp.post_send_unchecked(wr::Send::new(sge!(w, 0)).to(w.extra)) }.code()
}}

form! { recv1(w: Books) {
    // SAFETY: the stub is done with the work request when the post returns.
    unsafe { w.qp.post_recv_unchecked(wr::Recv::new(sge!(w, 0))) }.code()
}}

macro_rules! chain {
    ($name:ident: $($i:literal)*) => {
        form! { $name(w: Books) {
            let at = w.at;
            post_unchecked!(w.qp, begin_send, [$(wr::RdmaWrite::new(sge!(w, $i), at)),*]).code()
        }}
    };
}
chain! { chain2: 0 1 }
chain! { chain4: 0 1 2 3 }
chain! { chain8: 0 1 2 3 4 5 6 7 }
chain! { chain16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
chain! { chain32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 }

form! { mixed4(w: Books) post_unchecked!(w.qp, begin_send, [
    wr::RdmaWrite::new(sge!(w, 0), w.at),
    wr::Send::new(sge!(w, 1).inline()),
    wr::RdmaRead::new(sge!(w, 2), w.from),
    wr::FetchAndAdd::new(sge!(w, 3), w.cell, w.add),
]).code() }

#[inline(always)]
fn listed(w: &mut Books, count: u32) -> Result<(), RawPostError> {
    let at = w.at;
    let mut slots = SendSlots::<16>::new();
    let n = (count as usize).min(16);
    let (ids, pieces) = (&w.ids[..n], &w.pieces[..n]);
    let wr = |i: usize| wr::RdmaWrite::new(wr::Sge::new(ids[i], [pieces[i]]), at);
    // SAFETY: the stub is done with the work requests when the post returns.
    unsafe { w.qp.post_send_list_unchecked(&mut slots, n, wr) }
}
form! { list1of16(w: Books) listed(w, w.counts[0]).code() }
form! { list4of16(w: Books) listed(w, w.counts[1]).code() }
form! { list16of16(w: Books) listed(w, w.counts[2]).code() }

macro_rules! receives {
    ($name:ident: $($i:literal)*) => {
        form! { $name(w: Books)
            post_unchecked!(w.qp, begin_recv, [$(wr::Recv::new(sge!(w, $i))),*]).code()
        }
    };
}
receives! { recv16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }

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
        // SAFETY: a poll gives 16 completions at most, and there is room for 32.
        unsafe {
            at.write(completion.raw_wr_id());
            at = at.add(1);
        }
    });
    code
}}

form! { cycle(w: Books) {
    // SAFETY: the stub is done with the work request when the post returns.
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
