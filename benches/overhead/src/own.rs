//! Memory that peers can access, as programs use it. Safe code that uses only the public interface.
#![forbid(unsafe_code)]

use std::ffi::c_int;
use std::hint::black_box;

use proverbs::memory::{Entry, OpenBuf, OutOfBounds, ToWrite};
use proverbs::prelude::*;

/// The longest copy.
pub const LONG: usize = 4096;

profile! { pub Fanout { entry: SharedBuf } }
profile! { pub Answers { entry: OpenBuf } }

/// The objects of the program. The queue pairs are first.
#[repr(C)]
pub struct Own {
    pub followers: [QueuePair<Rc, Rts, Fanout>; 3],
    pub answers: QueuePair<Rc, Rts, Answers>,
    pub bytes: [u8; LONG],
    pub cq: CompletionQueue<SharedBuf>,
    pub record: Option<Buf>,
    pub at: RemoteSpan<ToWrite>,
    pub answered: CompletionQueue<OpenBuf>,
    pub kept: Option<OpenBuf>,
    pub region: MemoryRegion<RemoteAll>,
    pub pool: Pool,
    pub arena: Arena,
    /// Numbers that are known only at run time.
    pub short: usize,
    pub long: usize,
    pub from: usize,
}

#[cold]
#[inline(never)]
fn beyond(error: OutOfBounds) -> c_int {
    black_box(error);
    black_box(-1)
}

#[inline(always)]
fn code(result: Result<(), OutOfBounds>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => beyond(error),
    }
}

#[inline(always)]
pub fn read(own: &mut Own, len: usize) -> c_int {
    let Some(out) = own.bytes.get_mut(..len) else { return -2 };
    code(own.region.read_at(0, out))
}

#[inline(always)]
pub fn write(own: &mut Own, len: usize) -> c_int {
    let Some(bytes) = own.bytes.get(..len) else { return -2 };
    code(own.region.write_at(0, bytes))
}

#[cold]
#[inline(never)]
fn refused<E: Entry>(error: PostError<E>) -> c_int {
    drop(error);
    black_box(-3)
}

#[cold]
#[inline(never)]
fn dead(error: proverbs::Error) -> c_int {
    drop(error);
    black_box(-4)
}

#[cold]
#[inline(never)]
fn missing() -> c_int {
    black_box(-5)
}

/// Sends one buffer to three queue pairs, until it is exclusive again.
#[inline(always)]
pub fn fanout(own: &mut Own) -> Result<(), c_int> {
    let record = own.record.take().ok_or_else(missing)?;
    for (follower, handle) in own.followers.iter_mut().zip(record.share(3)) {
        follower.post_send(wr::RdmaWrite::new(handle, own.at)).map_err(refused)?;
    }
    for completion in own.cq.poll().map_err(dead)? {
        if completion.status().is_err() {
            return Err(missing());
        }
        let entry = completion.into_entry().ok_or_else(missing)?;
        if let Some(record) = entry.thaw_if_last() {
            own.record = Some(record);
        }
    }
    Ok(())
}

/// The same with a clone for each queue pair.
#[inline(always)]
pub fn cloned(own: &mut Own) -> Result<(), c_int> {
    let record = own.record.take().ok_or_else(missing)?.freeze();
    for follower in &mut own.followers {
        follower.post_send(wr::RdmaWrite::new(record.clone(), own.at)).map_err(refused)?;
    }
    for completion in own.cq.poll().map_err(dead)? {
        if completion.status().is_err() {
            return Err(missing());
        }
        drop(completion.into_entry());
    }
    own.record = Some(record.thaw().map_err(|_| missing())?);
    Ok(())
}

/// Replies with a piece of the region, from a place that is known only at run time.
#[inline(always)]
pub fn piece(own: &mut Own) -> Result<(), c_int> {
    let mut piece = own.kept.take().ok_or_else(missing)?;
    piece.set_range(own.from, own.short).map_err(beyond)?;
    own.kept = Some(answer(own, piece)?);
    Ok(())
}

/// The same with a new handle each time.
#[inline(always)]
pub fn made(own: &mut Own) -> Result<(), c_int> {
    let piece = own.region.piece(own.from, own.short).map_err(beyond)?;
    answer(own, piece).map(drop)
}

/// The same piece each time.
#[inline(always)]
pub fn kept(own: &mut Own) -> Result<(), c_int> {
    let piece = own.kept.take().ok_or_else(missing)?;
    own.kept = Some(answer(own, piece)?);
    Ok(())
}

#[inline(always)]
fn answer(own: &mut Own, piece: OpenBuf) -> Result<OpenBuf, c_int> {
    own.answers.post_send(wr::Send::new(piece)).map_err(refused)?;
    let completion = own.answered.poll_one().map_err(dead)?.ok_or_else(missing)?;
    if completion.status().is_err() {
        return Err(missing());
    }
    completion.into_entry().ok_or_else(missing)
}

/// Takes a buffer from a pool and drops it.
#[inline(always)]
pub fn take(own: &mut Own) -> Result<(), c_int> {
    drop(black_box(own.pool.take().ok_or_else(missing)?));
    Ok(())
}

/// The same with an arena, and a length that is known at run time.
#[inline(always)]
pub fn arena(own: &mut Own) -> Result<(), c_int> {
    drop(black_box(own.arena.take(own.short).ok_or_else(missing)?));
    Ok(())
}

#[inline(always)]
pub fn result(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(code) => code,
    }
}
