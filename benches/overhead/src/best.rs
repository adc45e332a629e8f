//! The loops of `benches/c/best.h`, by the fastest form that the guide shows: work requests are
//! prepared once, and `for_each` iterates over completions. Safe code that uses only the public
//! interface.
#![forbid(unsafe_code)]

use std::ffi::c_int;
use std::hint::black_box;

use proverbs::completion::GRH_LEN;
use proverbs::memory::{Entry, OpenBuf, ToWrite};
use proverbs::prelude::*;
use proverbs::wr::{Placeholder, Prepared};

use crate::life::{Datagrams, Done, Life, ROUNDS, Ring, back, dead, first, missing, posted};
use crate::own::Answers;
use crate::world::Gather;

#[cold]
#[inline(never)]
fn refused<E: Entry>(error: PostError<E>) -> c_int {
    drop(error);
    black_box(-1)
}

/// Takes each completion of one poll: the queue pair's number, the received length, the entry.
macro_rules! each {
    ($cq:expr, |$from:pat_param, $len:pat_param, $entry:pat_param| $body:expr) => {
        for completion in $cq.poll().map_err(dead)? {
            if completion.status().is_err() {
                return Err(missing());
            }
            let ($from, $len) = (completion.qp_num(), completion.byte_len());
            let $entry = completion.into_entry().ok_or_else(missing)?;
            $body?;
        }
    };
}

/// One prepared work request after the other, on one queue pair or on several in turn.
macro_rules! in_turn {
    ($name:ident $ready:ident $($qp:ident)*: |$wr:ident, $buf:ident, $round:ident| $before:block) => {
        #[inline(always)]
        pub fn $name(life: &mut Life) -> Done {
            let mut $wr = life.ready.$ready.take().ok_or_else(missing)?;
            let mut $buf = first(&mut life.slots)?;
            let mut $round = 0;
            while $round < ROUNDS {
                $(
                    $before
                    posted(life.$qp.post_prepared(&mut $wr, $buf))?;
                    $buf = back(&mut life.cq)?;
                    $round += 1;
                )*
            }
            life.slots[0] = Some($buf);
            life.ready.$ready = Some($wr);
            Ok(())
        }
    };
}
in_turn! { write write qp: |wr, buf, round| {} }
in_turn! { write_many write qp other: |wr, buf, round| {} }
in_turn! { full write shallow: |wr, buf, round| {} }
in_turn! { set_len write qp: |wr, buf, round| { buf.set_len(8 + round as usize) } }
in_turn! { read read qp: |wr, buf, round| {} }
in_turn! { cas cas qp: |wr, buf, round| {} }
in_turn! { faa faa qp: |wr, buf, round| {} }
in_turn! { faa_many faa qp other: |wr, buf, round| {} }

/// Operands that change each time.
#[inline(always)]
pub fn new_cas(life: &mut Life) -> Done {
    let mut buf = first(&mut life.slots)?;
    for round in 0..ROUNDS as u64 {
        let operands = wr::CompareSwap { compare: round, swap: round + 1 };
        posted(life.qp.post_send(wr::CmpAndSwp::new(buf, life.cell, operands)))?;
        buf = back(&mut life.cq)?;
    }
    life.slots[0] = Some(buf);
    Ok(())
}

/// Replies to each message from its own buffer, and posts each sent buffer as a receive again, on
/// one queue pair or on two.
#[inline(always)]
pub fn echo<const MANY: bool>(life: &mut Life) -> Done {
    let mut send = life.ready.send.take().ok_or_else(missing)?;
    for _ in 0..ROUNDS {
        let Life { qp, other, cq, .. } = life;
        let number = other.qp_num();
        for completion in cq.poll().map_err(dead)? {
            if completion.status().is_err() {
                return Err(missing());
            }
            let is_other = MANY && completion.qp_num() == number;
            let qp = if is_other { &mut *other } else { &mut *qp };
            // The entry is taken in each branch, so that each completion is tested once.
            if let Some(len) = completion.byte_len() {
                let mut buf = completion.into_entry().ok_or_else(missing)?;
                buf.set_len(len as usize);
                posted(qp.post_prepared(&mut send, buf))?;
            } else {
                let buf = completion.into_entry().ok_or_else(missing)?;
                posted(qp.post_recv(wr::Recv::new(buf)))?;
            }
        }
    }
    life.ready.send = Some(send);
    Ok(())
}

/// The same with one message in flight.
#[inline(always)]
pub fn echo_one(life: &mut Life) -> Done {
    let mut send = life.ready.send.take().ok_or_else(missing)?;
    for _ in 0..ROUNDS {
        let completion = life.cq.poll_one().map_err(dead)?.ok_or_else(missing)?;
        if completion.status().is_err() {
            return Err(missing());
        }
        if let Some(len) = completion.byte_len() {
            let mut buf = completion.into_entry().ok_or_else(missing)?;
            buf.set_len(len as usize);
            posted(life.qp.post_prepared(&mut send, buf))?;
        } else {
            let buf = completion.into_entry().ok_or_else(missing)?;
            posted(life.qp.post_recv(wr::Recv::new(buf)))?;
        }
    }
    life.ready.send = Some(send);
    Ok(())
}

/// Receives for `echo`, on two queue pairs in turn.
pub fn prime_many(life: &mut Life) -> Done {
    for pair in life.slots[..8].chunks_mut(2) {
        for (slot, qp) in pair.iter_mut().zip([&mut life.qp, &mut life.other]) {
            posted(qp.post_recv(wr::Recv::new(slot.take().ok_or_else(missing)?)))?;
        }
    }
    Ok(())
}

/// A client: posts a receive and a request, and waits for both completions.
#[inline(always)]
pub fn rpc(life: &mut Life) -> Done {
    let mut send = life.ready.send.take().ok_or_else(missing)?;
    let [mut answer, mut request] = [0, 1].map(|i: usize| life.slots[i].take());
    let mut sum = 0;
    for _ in 0..ROUNDS {
        posted(life.qp.post_recv(wr::Recv::new(answer.take().ok_or_else(missing)?)))?;
        posted(life.qp.post_prepared(&mut send, request.take().ok_or_else(missing)?))?;
        let mut out = 2;
        while out > 0 {
            let Some(completion) = life.cq.poll_one().map_err(dead)? else { continue };
            if completion.status().is_err() {
                return Err(missing());
            }
            out -= 1;
            if let Some(len) = completion.byte_len() {
                sum += u64::from(len);
                answer = completion.into_entry();
            } else {
                request = completion.into_entry();
            }
        }
    }
    black_box(sum);
    (life.slots[0], life.slots[1]) = (answer, request);
    life.ready.send = Some(send);
    Ok(())
}

/// A stream of receives. All buffers of a poll are posted again as one list.
#[inline(always)]
pub fn stream(life: &mut Life) -> Done {
    let mut slots = RecvSlots::<16>::new();
    let mut sum = 0;
    for _ in 0..ROUNDS {
        let mut list = life.qp.recv_list(&mut slots);
        for completion in life.cq.poll().map_err(dead)? {
            // Only a receive that succeeded has a length.
            sum += completion.byte_len().ok_or_else(missing)?;
            posted(list.push(wr::Recv::new(completion.into_entry().ok_or_else(missing)?)))?;
        }
        posted(list.post())?;
    }
    black_box(sum);
    Ok(())
}

/// Sends a datagram to one of 64 peers, and reads a received message after its GRH.
#[inline(always)]
pub fn datagrams(life: &mut Datagrams) -> Done {
    let mut sum = 0;
    for round in 0..ROUNDS as usize {
        let Datagrams { cq, qp, ready, .. } = life;
        each!(cq, |_, len, buf| {
            if let Some(len) = len {
                if len as usize > GRH_LEN {
                    sum += buf.get(GRH_LEN).map_or(0, |&byte| u64::from(byte));
                }
                posted(qp.post_recv(wr::Recv::new(buf)))
            } else {
                posted(qp.post_prepared(&mut ready[round % 64], buf))
            }
        });
    }
    black_box(sum);
    Ok(())
}

/// A chain of four with one completion, on one queue pair or on two in turn.
macro_rules! chain4 {
    ($name:ident $($qp:ident)*) => {
        #[inline(always)]
        pub fn $name(life: &mut Ring) -> Done {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| life.slots[i].take().ok_or_else(missing));
            let mut bufs = [a?, b?, c?, d?];
            let mut round = 0;
            while round < ROUNDS {
                $(
                    let [a, b, c, d] = bufs.map(|buf| wr::RdmaWrite::new(buf, life.at));
                    posted(post_send!(life.$qp, [a, b, c, d]))?;
                    let completion = life.cq.poll_one().map_err(dead)?.ok_or_else(missing)?;
                    let done = life.$qp.complete(completion).map_err(|_| missing())?;
                    if done.status.is_err() {
                        return Err(missing());
                    }
                    bufs = done.released.array().map_err(|_| missing())?;
                    round += 1;
                )*
            }
            life.slots.iter_mut().zip(bufs).for_each(|(slot, buf)| *slot = Some(buf));
            Ok(())
        }
    };
}
chain4! { chain4 qp }
chain4! { chain4_many qp other }

/// WRITEs whose number is known at run time, with one completion.
#[inline(always)]
pub fn list(life: &mut Ring) -> Done {
    let bufs = life.slots.get_mut(..life.count).ok_or_else(missing)?;
    let mut slots = SendSlots::<16>::new();
    let at = life.at;
    for _ in 0..ROUNDS {
        let mut list = life.qp.send_list(&mut slots);
        let taken = bufs.iter_mut().map(|buf| buf.take().expect("it is back"));
        posted(list.extend(taken.map(|buf| wr::RdmaWrite::new(buf, at))))?;
        posted(list.post())?;
        let completion = life.cq.poll_one().map_err(dead)?.ok_or_else(missing)?;
        let done = life.qp.complete(completion).map_err(|_| missing())?;
        if done.status.is_err() {
            return Err(missing());
        }
        let mut free = bufs.iter_mut();
        done.released.for_each(|buf| {
            if let Some(slot) = free.next() {
                *slot = Some(buf);
            }
        });
    }
    Ok(())
}

/// A program that gathers several buffers.
#[repr(C)]
pub struct Gathers {
    pub qp: QueuePair<Rc, Rts, Gather>,
    pub cq: CompletionQueue<BufList>,
    pub at: RemoteSpan<ToWrite>,
    pub bufs: [Option<Buf>; 4],
}

macro_rules! gather {
    ($name:ident $($i:literal)*) => {
        #[inline(always)]
        pub fn $name(it: &mut Gathers) -> Done {
            let mut bufs = [$(it.bufs[$i].take().ok_or_else(missing)?),*];
            for _ in 0..ROUNDS {
                it.qp.post_send(wr::RdmaWrite::new(bufs, it.at)).map_err(refused)?;
                let completion = it.cq.poll_one().map_err(dead)?.ok_or_else(missing)?;
                if completion.status().is_err() {
                    return Err(missing());
                }
                let mut list = completion.into_entry().ok_or_else(missing)?;
                bufs = [$({ let _ = $i; list.pop_front().ok_or_else(missing)? }),*];
            }
            it.bufs.iter_mut().zip(bufs).for_each(|(slot, buf)| *slot = Some(buf));
            Ok(())
        }
    };
}
gather! { gather2 0 1 }
gather! { gather4 0 1 2 3 }

/// A program that sends a piece of a region, from a place that is known only at run time.
#[repr(C)]
pub struct Places {
    pub qp: QueuePair<Rc, Rts, Answers>,
    pub cq: CompletionQueue<OpenBuf>,
    pub write: Prepared<wr::RdmaWrite, Placeholder>,
    pub piece: Option<OpenBuf>,
    pub from: usize,
    pub len: usize,
}

#[inline(always)]
pub fn piece(it: &mut Places) -> Done {
    let mut piece = it.piece.take().ok_or_else(missing)?;
    for _ in 0..ROUNDS {
        piece.set_range(it.from, it.len).map_err(|_| missing())?;
        it.qp.post_prepared(&mut it.write, piece).map_err(refused)?;
        let completion = it.cq.poll_one().map_err(dead)?.ok_or_else(missing)?;
        if completion.status().is_err() {
            return Err(missing());
        }
        piece = completion.into_entry().ok_or_else(missing)?;
    }
    it.piece = Some(piece);
    Ok(())
}

profile! { pub Answering { entry: AnyBuf } }

/// A server that answers each request from a table in a region.
#[repr(C)]
pub struct Table {
    pub qp: QueuePair<Rc, Rts, Answering>,
    pub cq: CompletionQueue<AnyBuf>,
    pub send: Prepared<wr::Send, Placeholder>,
    pub spare: Vec<OpenBuf>,
    pub slots: [Option<AnyBuf>; 16],
}

pub fn prime_table(it: &mut Table) -> Done {
    it.slots[..8].iter_mut().filter_map(Option::take).try_for_each(|buf| match buf {
        AnyBuf::Buf(buf) => it.qp.post_recv(wr::Recv::new(buf)).map_err(refused),
        _ => Err(missing()),
    })
}

/// Takes back what is outstanding.
pub fn restore_table(it: &mut Table) {
    let Table { cq, spare, slots, .. } = it;
    let mut free = slots.iter_mut().filter(|slot| slot.is_none());
    while let Ok(Some(completion)) = cq.poll_one() {
        match completion.into_entry() {
            Some(AnyBuf::Open(answer)) => spare.push(answer),
            entry => *free.next().expect("each buffer came from a slot") = entry,
        }
    }
}

/// The request has the number of the answer.
#[inline(always)]
pub fn table(it: &mut Table) -> Done {
    const PIECE: usize = 64;
    for _ in 0..ROUNDS {
        let Table { cq, qp, send, spare, .. } = it;
        each!(cq, |_, _, entry| match entry {
            AnyBuf::Buf(request) => {
                let number = request.first_chunk().ok_or_else(missing)?;
                let number = u32::from_ne_bytes(*number) as usize;
                qp.post_recv(wr::Recv::new(request)).map_err(refused)?;
                let mut answer = spare.pop().ok_or_else(missing)?;
                answer.set_range(number * PIECE, PIECE).map_err(|_| missing())?;
                qp.post_prepared(send, answer).map_err(refused)
            }
            AnyBuf::Open(answer) => {
                spare.push(answer);
                Ok(())
            }
            _ => Err(missing()),
        });
    }
    Ok(())
}
