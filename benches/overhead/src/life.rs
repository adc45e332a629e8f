//! Programs as they are written: README's loop, receive and answer, one buffer on several queues.
//!
//! Safe code, the public interface alone, the loop included. Each form leaves nothing outstanding,
//! and what it needs is in the slots again.
#![forbid(unsafe_code)]

use std::ffi::c_int;
use std::hint::black_box;

use proverbs::completion::{Direction, Received, Sent};
use proverbs::memory::ToWrite;
use proverbs::prelude::*;

type Posted = Result<(), PostError<Buf>>;

/// What the program has.
pub struct Life {
    pub qp: QueuePair<Rc, Rts>,
    pub other: QueuePair<Rc, Rts>,
    pub srq: SharedReceiveQueue<Rc>,
    pub cq: CompletionQueue,
    pub at: RemoteSpan<ToWrite>,
    pub slots: [Option<Buf>; 16],
}

#[cold]
#[inline(never)]
fn refused(error: PostError<Buf>) -> c_int {
    drop(error);
    black_box(-1)
}

#[cold]
#[inline(never)]
fn dead(error: proverbs::Error) -> c_int {
    drop(error);
    black_box(-2)
}

#[cold]
#[inline(never)]
fn missing() -> c_int {
    black_box(-3)
}

#[inline(always)]
fn posted(posted: Posted) -> Result<(), c_int> {
    posted.map_err(refused)
}

#[inline(always)]
fn code(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(code) => code,
    }
}

/// README's loop: post, poll, sort by outcome, use the buffer again.
#[inline(always)]
pub fn readme(life: &mut Life) -> c_int {
    let Some(buf) = life.slots[0].take() else { return missing() };
    if let Err(error) = life.qp.post_send(wr::RdmaWrite::new(buf, life.at)) {
        return refused(error);
    }
    let completions = match life.cq.poll() {
        Ok(completions) => completions,
        Err(error) => return dead(error),
    };
    for completion in completions {
        match completion.outcome() {
            Outcome::Sent(Sent { entry, .. }) => life.slots[0] = entry,
            _ => return missing(),
        }
    }
    0
}

/// Receives are answered from the same buffer, if `answers`; what else is done goes to the slots.
#[inline(always)]
fn by_outcome(life: &mut Life, answers: bool) -> Result<(), c_int> {
    let mut slots = life.slots.iter_mut();
    for completion in life.cq.poll().map_err(dead)? {
        match completion.outcome() {
            Outcome::Received(Received { entry: Some(buf), .. }) if answers => {
                posted(life.qp.post_send(wr::Send::new(buf)))?;
            }
            Outcome::Received(Received { entry, .. }) | Outcome::Sent(Sent { entry, .. }) => {
                *slots.next().ok_or_else(missing)? = entry;
            }
            _ => return Err(missing()),
        }
    }
    Ok(())
}

/// As `by_outcome`, asking for what is needed alone.
#[inline(always)]
fn narrowly(life: &mut Life, answers: bool) -> Result<(), c_int> {
    let mut slots = life.slots.iter_mut();
    for completion in life.cq.poll().map_err(dead)? {
        if completion.status().is_err() {
            return Err(missing());
        }
        let is_receive = completion.direction() == Direction::Receive;
        let len = completion.byte_len();
        let Some(mut buf) = completion.into_entry() else { return Err(missing()) };
        if is_receive {
            buf.set_len(len.unwrap_or(0) as usize);
            if answers {
                posted(life.qp.post_send(wr::Send::new(buf)))?;
                continue;
            }
        }
        *slots.next().ok_or_else(missing)? = Some(buf);
    }
    Ok(())
}

/// `N` receives that come at once, answered from their buffers.
#[inline(always)]
pub fn echo<const N: usize>(life: &mut Life, narrow: bool) -> c_int {
    code(
        life.slots[..N]
            .iter_mut()
            .try_for_each(|slot| {
                let buf = slot.take().ok_or_else(missing)?;
                posted(life.qp.post_recv(wr::Recv::new(buf)))
            })
            .and_then(|()| if narrow { narrowly(life, true) } else { by_outcome(life, true) })
            .and_then(|()| if narrow { narrowly(life, false) } else { by_outcome(life, false) }),
    )
}

/// `N` receives of a shared receive queue, which come back, or are answered on a queue pair.
#[inline(always)]
pub fn shared<const N: usize>(life: &mut Life, narrow: bool, answers: bool) -> c_int {
    let result = life.slots[..N].iter_mut().try_for_each(|slot| {
        let buf = slot.take().ok_or_else(missing)?;
        posted(life.srq.post_srq_recv(wr::Recv::new(buf)))
    });
    let mut done =
        |answers| if narrow { narrowly(life, answers) } else { by_outcome(life, answers) };
    let result = result.and_then(|()| done(answers));
    code(if answers { result.and_then(|()| done(false)) } else { result })
}

/// One buffer on two queue pairs by turns.
#[inline(always)]
pub fn two_queue_pairs(life: &mut Life) -> c_int {
    let Some(buf) = life.slots[0].take() else { return missing() };
    let turns = posted(life.qp.post_send(wr::RdmaWrite::new(buf, life.at)))
        .and_then(|()| back(&mut life.cq))
        .and_then(|buf| posted(life.other.post_send(wr::RdmaWrite::new(buf, life.at))))
        .and_then(|()| back(&mut life.cq));
    match turns {
        Ok(buf) => life.slots[0] = Some(buf),
        Err(code) => return code,
    }
    0
}

#[inline(always)]
fn back(cq: &mut CompletionQueue) -> Result<Buf, c_int> {
    let completion = cq.poll_one().map_err(dead)?.ok_or_else(missing)?;
    if completion.status().is_err() {
        return Err(missing());
    }
    completion.into_entry().ok_or_else(missing)
}
