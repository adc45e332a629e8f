//! Loops of realistic programs: README's loop, receive and reply, one buffer on several queues.
//! Safe code that uses only the public interface. The loop is included. Each form iterates
//! [`ROUNDS`] times in the steady state. `prime` posts the work requests that it needs, and `drain`
//! takes back the work requests that it leaves outstanding. Neither is counted.
#![forbid(unsafe_code)]

use std::ffi::c_int;
use std::hint::black_box;

use proverbs::completion::GRH_LEN;
use proverbs::memory::{Owned, ToWrite};
use proverbs::prelude::*;
use proverbs::wr::{Placeholder, Prepared};

use crate::twin::PAYLOAD;
use crate::world::Chosen;

/// The number of iterations of a form's loop.
pub const ROUNDS: u32 = 32;

/// The objects of a program. The queue pair is first.
#[repr(C)]
pub struct Life {
    pub qp: QueuePair<Rc, Rts>,
    /// Its depth is 1.
    pub shallow: QueuePair<Rc, Rts>,
    pub other: QueuePair<Rc, Rts>,
    pub srq: SharedReceiveQueue<Rc>,
    pub cq: CompletionQueue,
    pub pool: Pool,
    pub arena: Arena,
    pub len: usize,
    pub at: RemoteSpan<ToWrite>,
    pub cell: RemoteCell,
    pub slots: [Option<Buf>; 16],
    pub ready: Ready,
}

/// Work requests that are built once and posted many times.
pub struct Ready {
    pub send: Option<Prepared<wr::Send, Placeholder>>,
    pub write: Option<Prepared<wr::RdmaWrite, Placeholder>>,
    pub read: Option<Prepared<wr::RdmaRead, Placeholder>>,
    pub cas: Option<Prepared<wr::CmpAndSwp, Placeholder>>,
    pub faa: Option<Prepared<wr::FetchAndAdd, Placeholder>>,
    pub inline_send: Option<Prepared<wr::Send, [u8; PAYLOAD]>>,
}

/// The objects of a program that uses datagrams.
pub struct Datagrams {
    pub qp: QueuePair<Ud, Rts>,
    pub cq: CompletionQueue,
    pub to: [wr::Destination; 64],
    pub ready: [Prepared<wr::Send, Placeholder, wr::Datagram>; 64],
    pub slots: [Option<Buf>; 16],
}

/// The objects of a program with selective signaling.
pub struct Ring {
    pub qp: QueuePair<Rc, Rts, Chosen>,
    pub cq: CompletionQueue,
    pub at: RemoteSpan<ToWrite>,
    pub slots: [Option<Buf>; 16],
    /// A second queue pair.
    pub other: QueuePair<Rc, Rts, Chosen>,
    /// The length of a list.
    pub count: usize,
}

#[cold]
#[inline(never)]
pub fn refused(error: PostError<Buf>) -> c_int {
    drop(error);
    black_box(-1)
}

#[cold]
#[inline(never)]
pub fn dead(error: proverbs::Error) -> c_int {
    drop(error);
    black_box(-2)
}

#[cold]
#[inline(never)]
pub fn missing() -> c_int {
    black_box(-3)
}

pub type Done = Result<(), c_int>;

#[inline(always)]
pub fn posted(posted: Result<(), PostError<Buf>>) -> Done {
    posted.map_err(refused)
}

#[inline(always)]
pub fn code(result: Done) -> c_int {
    match result {
        Ok(()) => 0,
        Err(code) => code,
    }
}

#[inline(always)]
pub fn first(slots: &mut [Option<Buf>]) -> Result<Buf, c_int> {
    slots[0].take().ok_or_else(missing)
}

/// The entry of a completion that the program does not expect, or that failed.
#[cold]
#[inline(never)]
fn unexpected(entry: Option<Buf>) -> c_int {
    drop(entry);
    black_box(-4)
}

#[cold]
#[inline(never)]
fn selective(completion: Completion<'_, Buf>) -> c_int {
    drop(completion);
    black_box(-5)
}

/// The buffer of one completion.
#[inline(always)]
pub fn back(cq: &mut CompletionQueue) -> Result<Buf, c_int> {
    let completion = cq.poll_one().map_err(dead)?.ok_or_else(missing)?;
    if completion.status().is_err() {
        return Err(missing());
    }
    completion.into_entry().ok_or_else(missing)
}

/// Takes back outstanding buffers.
pub fn drain<E: Owned>(cq: &mut CompletionQueue<E>, slots: &mut [Option<E>]) {
    let mut free = slots.iter_mut().filter(|slot| slot.is_none());
    while let Ok(Some(completion)) = cq.poll_one() {
        if let Some(entry) = completion.into_entry() {
            *free.next().expect("each buffer came from a slot") = Some(entry);
        }
    }
}

/// README's loop: post, poll, match on the outcome, reuse the buffer.
#[inline(always)]
pub fn readme(life: &mut Life) -> Done {
    let mut spare = life.slots[0].take();
    for _ in 0..ROUNDS {
        let buf = spare.take().ok_or_else(missing)?;
        posted(life.qp.post_send(wr::RdmaWrite::new(buf, life.at)))?;
        for completion in life.cq.poll().map_err(dead)? {
            match completion.outcome() {
                Outcome::Sent(sent) => spare = sent.entry,
                Outcome::Failed(failed) => return Err(unexpected(failed.entry)),
                Outcome::Received(message) => return Err(unexpected(message.entry)),
                Outcome::Datagram(message) => return Err(unexpected(message.entry)),
                Outcome::Selective(completion) => return Err(selective(completion)),
            }
        }
    }
    life.slots[0] = spare;
    Ok(())
}

/// Posts one SEND after the other, with a work request that is built once.
#[inline(always)]
pub fn prepared(life: &mut Life) -> Done {
    let mut send = life.ready.send.take().ok_or_else(missing)?;
    let mut buf = first(&mut life.slots)?;
    for _ in 0..ROUNDS {
        posted(life.qp.post_prepared(&mut send, buf))?;
        buf = back(&mut life.cq)?;
    }
    life.slots[0] = Some(buf);
    life.ready.send = Some(send);
    Ok(())
}

/// The same with a WRITE.
#[inline(always)]
pub fn prepared_write(life: &mut Life) -> Done {
    let mut write = life.ready.write.take().ok_or_else(missing)?;
    let mut buf = first(&mut life.slots)?;
    for _ in 0..ROUNDS {
        posted(life.qp.post_prepared(&mut write, buf))?;
        buf = back(&mut life.cq)?;
    }
    life.slots[0] = Some(buf);
    life.ready.write = Some(write);
    Ok(())
}

/// The same with inline bytes: no buffer comes back.
#[inline(always)]
pub fn prepared_inline(life: &mut Life) -> Done {
    let mut beat = life.ready.inline_send.take().ok_or_else(missing)?;
    for _ in 0..ROUNDS {
        posted(life.qp.post_prepared_inline(&mut beat))?;
        let completion = life.cq.poll_one().map_err(dead)?.ok_or_else(missing)?;
        if completion.status().is_err() {
            return Err(missing());
        }
        if let Some(buf) = completion.into_entry() {
            return Err(unexpected(Some(buf)));
        }
    }
    life.ready.inline_send = Some(beat);
    Ok(())
}

/// One WRITE after the other on a queue that is kept full.
#[inline(always)]
pub fn full(life: &mut Life) -> Done {
    let mut buf = first(&mut life.slots)?;
    for _ in 0..ROUNDS {
        posted(life.shallow.post_send(wr::RdmaWrite::new(buf, life.at)))?;
        buf = back(&mut life.cq)?;
    }
    life.slots[0] = Some(buf);
    Ok(())
}

/// The same, setting a length before each.
#[inline(always)]
pub fn set_len(life: &mut Life) -> Done {
    let mut buf = first(&mut life.slots)?;
    for round in 0..ROUNDS as usize {
        buf.set_len(8 + round);
        posted(life.qp.post_send(wr::RdmaWrite::new(buf, life.at)))?;
        buf = back(&mut life.cq)?;
    }
    life.slots[0] = Some(buf);
    Ok(())
}

/// The same with a new buffer from the pool for each.
#[inline(always)]
pub fn pool(life: &mut Life) -> Done {
    for _ in 0..ROUNDS {
        let buf = life.pool.take().ok_or_else(missing)?;
        posted(life.qp.post_send(wr::RdmaWrite::new(buf, life.at)))?;
        drop(back(&mut life.cq)?);
    }
    Ok(())
}

/// The same with a buffer from an arena, of a length that is known at run time, and with a store
/// into it.
#[inline(always)]
pub fn from_arena(life: &mut Life) -> Done {
    for round in 0..ROUNDS {
        let mut buf = life.arena.take(life.len).ok_or_else(missing)?;
        buf[..8].copy_from_slice(&u64::from(round).to_ne_bytes());
        posted(life.qp.post_send(wr::RdmaWrite::new(buf, life.at)))?;
        drop(back(&mut life.cq)?);
    }
    Ok(())
}

/// One fetch-and-add after the other.
#[inline(always)]
pub fn faa(life: &mut Life) -> Done {
    let mut buf = first(&mut life.slots)?;
    for _ in 0..ROUNDS {
        posted(life.qp.post_send(wr::FetchAndAdd::new(buf, life.cell, 1)))?;
        buf = back(&mut life.cq)?;
    }
    life.slots[0] = Some(buf);
    Ok(())
}

/// One buffer on two queue pairs in turn.
#[inline(always)]
pub fn two_queue_pairs(life: &mut Life) -> Done {
    let mut buf = first(&mut life.slots)?;
    for _ in 0..ROUNDS / 2 {
        posted(life.qp.post_send(wr::RdmaWrite::new(buf, life.at)))?;
        buf = back(&mut life.cq)?;
        posted(life.other.post_send(wr::RdmaWrite::new(buf, life.at)))?;
        buf = back(&mut life.cq)?;
    }
    life.slots[0] = Some(buf);
    Ok(())
}

/// `N` receives, of the shared receive queue or of the queue pair.
pub fn prime<const N: usize, const SHARED: bool>(life: &mut Life) -> Done {
    let Life { qp, srq, slots, .. } = life;
    slots[..N].iter_mut().try_for_each(|slot| {
        let receive = wr::Recv::new(slot.take().ok_or_else(missing)?);
        posted(if SHARED { srq.post_srq_recv(receive) } else { qp.post_recv(receive) })
    })
}

/// Replies to each message from its own buffer, and posts each sent buffer as a receive again. An
/// item is a completion with its post.
#[inline(always)]
pub fn echo(life: &mut Life) -> Done {
    for _ in 0..ROUNDS {
        for completion in life.cq.poll().map_err(dead)? {
            if completion.status().is_err() {
                return Err(missing());
            }
            let arrived = completion.byte_len();
            let mut buf = completion.into_entry().ok_or_else(missing)?;
            if let Some(len) = arrived {
                buf.set_len(len as usize);
                posted(life.qp.post_send(wr::Send::new(buf)))?;
            } else {
                posted(life.qp.post_recv(wr::Recv::new(buf)))?;
            }
        }
    }
    Ok(())
}

/// Like `echo`, with `outcome`.
#[inline(always)]
pub fn echo_outcome(life: &mut Life) -> Done {
    for _ in 0..ROUNDS {
        for completion in life.cq.poll().map_err(dead)? {
            match completion.outcome() {
                Outcome::Received(message) => {
                    let buf = message.entry.ok_or_else(missing)?;
                    posted(life.qp.post_send(wr::Send::new(buf)))?;
                }
                Outcome::Sent(sent) => {
                    let buf = sent.entry.ok_or_else(missing)?;
                    posted(life.qp.post_recv(wr::Recv::new(buf)))?;
                }
                Outcome::Failed(failed) => return Err(unexpected(failed.entry)),
                Outcome::Datagram(message) => return Err(unexpected(message.entry)),
                Outcome::Selective(completion) => return Err(selective(completion)),
            }
        }
    }
    Ok(())
}

/// Reads each message from the shared receive queue, and posts its buffer as a receive again.
#[inline(always)]
pub fn shared(life: &mut Life) -> Done {
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        for completion in life.cq.poll().map_err(dead)? {
            // Only a receive that succeeded has a length.
            bytes += completion.byte_len().ok_or_else(missing)?;
            let buf = completion.into_entry().ok_or_else(missing)?;
            posted(life.srq.post_srq_recv(wr::Recv::new(buf)))?;
        }
    }
    black_box(bytes);
    Ok(())
}

/// Like `shared`, with `outcome`.
#[inline(always)]
pub fn shared_outcome(life: &mut Life) -> Done {
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        for completion in life.cq.poll().map_err(dead)? {
            match completion.outcome() {
                Outcome::Received(message) => {
                    bytes += message.byte_len;
                    let buf = message.entry.ok_or_else(missing)?;
                    posted(life.srq.post_srq_recv(wr::Recv::new(buf)))?;
                }
                Outcome::Failed(failed) => return Err(unexpected(failed.entry)),
                Outcome::Sent(sent) => return Err(unexpected(sent.entry)),
                Outcome::Datagram(message) => return Err(unexpected(message.entry)),
                Outcome::Selective(completion) => return Err(selective(completion)),
            }
        }
    }
    black_box(bytes);
    Ok(())
}

/// A receive, and a datagram to the first of the peers.
pub fn prime_datagrams(life: &mut Datagrams) -> Done {
    let [receive, send] = [0, 1].map(|i| life.slots[i].take().ok_or_else(missing));
    posted(life.qp.post_recv(wr::Recv::new(receive?)))?;
    posted(life.qp.post_send(wr::Send::new(send?).to(life.to[0])))
}

/// Sends a datagram to one of 64 peers, and reads a received message after its GRH. An item is one
/// of each.
#[inline(always)]
pub fn datagrams(life: &mut Datagrams) -> Done {
    let mut sum = 0;
    for round in 0..ROUNDS as usize {
        for completion in life.cq.poll().map_err(dead)? {
            if completion.status().is_err() {
                return Err(missing());
            }
            let arrived = completion.byte_len();
            let mut buf = completion.into_entry().ok_or_else(missing)?;
            if let Some(len) = arrived {
                buf.set_len(len as usize);
                sum += buf.get(GRH_LEN).map_or(0, |&byte| byte as u32);
                posted(life.qp.post_recv(wr::Recv::new(buf)))?;
            } else {
                let to = life.to[round % 64];
                posted(life.qp.post_send(wr::Send::new(buf).to(to)))?;
            }
        }
    }
    black_box(sum);
    Ok(())
}
