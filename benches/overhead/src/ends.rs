//! A queue pair from its creation to its end.
//!
//! Safe code, the public interface alone.
#![forbid(unsafe_code)]

use std::ffi::c_int;
use std::hint::black_box;

use proverbs::memory::ToWrite;
use proverbs::prelude::*;
use proverbs::qp::Drained;

use crate::world::{Ground, bring_up};

/// Buffers that a queue pair is used with.
pub const USED: usize = 12;
/// Buffers that others have, where there are any.
pub const IDLE: usize = 1 << 16;
const DEPTH: Depth = Depth { send: 16, recv: 16 };

/// What the program has.
pub struct Ends {
    pub ground: Ground,
    pub cq: CompletionQueue,
    pub at: RemoteSpan<ToWrite>,
    pub bufs: [Option<Buf>; USED],
    /// Buffers of the same domain that have nothing to do with the queue pair.
    pub _idle: Vec<Buf>,
}

#[cold]
#[inline(never)]
fn missing() -> c_int {
    black_box(-1)
}

/// A queue pair, connected and used.
#[inline(always)]
fn used(ends: &mut Ends) -> Result<QueuePair<Rc, Rts>, c_int> {
    let made = ends.ground.pd.create_qp::<Rc, DefaultProfile>(&ends.cq, &ends.cq, DEPTH);
    let mut qp = bring_up(&ends.ground, made.map_err(|_| missing())?);
    for buf in &mut ends.bufs {
        let buf = buf.take().ok_or_else(missing)?;
        qp.post_send(wr::RdmaWrite::new(buf, ends.at)).map_err(|_| missing())?;
    }
    Ok(qp)
}

/// Made, used, drained and dropped.
#[inline(always)]
pub fn drained(ends: &mut Ends) -> Result<(), c_int> {
    let mut qp = used(ends)?.to_error().map_err(|_| missing())?;
    let mut slots = ends.bufs.iter_mut();
    let drained = qp.drain(&mut ends.cq, |found| {
        if let (Drained::Entry(buf), Some(slot)) = (found, slots.next()) {
            *slot = Some(buf);
        }
    });
    drained.map_err(|_| missing())?;
    drop(qp);
    ends.cq.poll().map_err(|_| missing())?.for_each(drop);
    Ok(())
}

/// Dropped with work outstanding, whose buffers are home afterwards.
#[inline(always)]
pub fn outstanding(ends: &mut Ends) -> Result<(), c_int> {
    drop(used(ends)?);
    ends.cq.poll().map_err(|_| missing())?.for_each(drop);
    Ok(())
}

/// Takes the buffers again, in the same order.
pub fn restore(ends: &mut Ends) {
    let pool = &ends.ground.pool;
    let mut home: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();
    home.sort_by_key(|buf| buf.as_ptr());
    let free = ends.bufs.iter_mut().filter(|slot| slot.is_none());
    free.zip(home).for_each(|(slot, buf)| *slot = Some(buf));
}

#[inline(always)]
pub fn code(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(code) => code,
    }
}
