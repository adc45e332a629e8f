//! Waits for completions, completions with extra fields, and sessions. Safe code that uses only the
//! public interface.
#![forbid(unsafe_code)]

use std::ffi::c_int;
use std::hint::black_box;

use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::memory::ToWrite;
use proverbs::prelude::*;
use proverbs::wr::{Placeholder, Prepared};

use crate::life::{ROUNDS, dead, missing, refused};

/// The objects of a program that waits.
pub struct Sleeper {
    pub channel: CompletionChannel,
    pub qp: QueuePair<Rc, Rts>,
    pub cq: CompletionQueue,
    pub at: RemoteSpan<ToWrite>,
    pub bufs: [Option<Buf>; 32],
}

/// The objects of a program that reads the time. The queue pair is first.
#[repr(C)]
pub struct Timed {
    pub qp: QueuePair<Rc, Rts>,
    pub cq: CompletionQueueEx<CompletionTs>,
    pub write: Prepared<wr::RdmaWrite, Placeholder>,
    pub bufs: [Option<Buf>; 16],
}

profile! { pub Direct { posting: ExtendedPosting } }

/// The objects of a program that posts in sessions.
pub struct Session {
    pub qp: QueuePair<Rc, Rts, Direct>,
    pub cq: CompletionQueue,
    pub at: RemoteSpan<ToWrite>,
    pub bufs: [Option<Buf>; 4],
}

/// Posts WRITEs, and waits until the first of them completes. An item is one wait, with its posts
/// and completions.
#[inline(always)]
pub fn wake<const N: usize>(life: &mut Sleeper) -> Result<(), c_int> {
    for _ in 0..ROUNDS {
        for buf in &mut life.bufs[..N] {
            let buf = buf.take().ok_or_else(missing)?;
            life.qp.post_send(wr::RdmaWrite::new(buf, life.at)).map_err(refused)?;
        }
        let mut back = 0;
        while back < N {
            for completion in life.channel.wait(&mut life.cq).map_err(dead)? {
                if completion.status().is_err() {
                    return Err(missing());
                }
                let slot = life.bufs.get_mut(back).ok_or_else(missing)?;
                *slot = completion.into_entry();
                back += 1;
            }
        }
    }
    Ok(())
}

/// Posts WRITEs, and takes their completions with the device's clock.
#[inline(always)]
pub fn timed<const N: usize>(life: &mut Timed) -> Result<(), c_int> {
    for buf in &mut life.bufs[..N] {
        let buf = buf.take().ok_or_else(missing)?;
        life.qp.post_prepared(&mut life.write, buf).map_err(refused)?;
    }
    let mut slots = life.bufs.iter_mut();
    let mut sum = 0;
    for (completion, fields) in life.cq.poll().map_err(dead)? {
        // Only work that succeeded has a time.
        sum ^= fields.completion_ts().ok_or_else(missing)?;
        *slots.next().ok_or_else(missing)? = completion.into_entry();
    }
    black_box(sum);
    Ok(())
}

/// One WRITE in a session, and its completion.
#[inline(always)]
pub fn session1(life: &mut Session) -> Result<(), c_int> {
    let buf = life.bufs[0].take().ok_or_else(missing)?;
    life.qp.post_send(wr::RdmaWrite::new(buf, life.at)).map_err(refused)?;
    home(life)
}

/// Four WRITEs in a session, and their completions.
#[inline(always)]
pub fn session4(life: &mut Session) -> Result<(), c_int> {
    let at = life.at;
    let [Some(a), Some(b), Some(c), Some(d)] = life.bufs.each_mut().map(Option::take) else {
        return Err(missing());
    };
    let write = |buf| wr::RdmaWrite::new(buf, at);
    post_send!(life.qp, [write(a), write(b), write(c), write(d)]).map_err(refused)?;
    home(life)
}

#[inline(always)]
fn home(life: &mut Session) -> Result<(), c_int> {
    let mut slots = life.bufs.iter_mut();
    for completion in life.cq.poll().map_err(dead)? {
        if completion.status().is_err() {
            return Err(missing());
        }
        *slots.next().ok_or_else(missing)? = completion.into_entry();
    }
    Ok(())
}

#[inline(always)]
pub fn code(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(code) => code,
    }
}
