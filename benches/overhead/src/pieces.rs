//! Pieces of a region, alone, behind a header, and 16 in a list. Safe code that uses only the public
//! interface.
#![forbid(unsafe_code)]

use std::ffi::c_int;
use std::hint::black_box;

use proverbs::memory::{AnyList, OpenBuf, OutOfBounds, ToWrite};
use proverbs::prelude::*;

profile! { pub Gathers { max_send_sge: 16, entry: AnyList } }

/// The objects of the program. The queue pair is first.
#[repr(C)]
pub struct Pieces {
    pub qp: QueuePair<Rc, Rts, Gathers>,
    pub cq: CompletionQueue<AnyList>,
    pub at: RemoteSpan<ToWrite>,
    pub header: Option<Buf>,
    pub piece: Option<OpenBuf>,
    pub list: AnyList,
    /// Numbers that are known only at run time.
    pub from: [usize; 16],
    pub len: usize,
}

type Done<T = ()> = Result<T, c_int>;

#[cold]
#[inline(never)]
fn beyond(error: OutOfBounds) -> c_int {
    black_box(error);
    black_box(-1)
}

#[cold]
#[inline(never)]
fn refused(error: PostError<AnyList>) -> c_int {
    drop(error);
    black_box(-2)
}

#[cold]
#[inline(never)]
fn dead(error: proverbs::Error) -> c_int {
    drop(error);
    black_box(-3)
}

#[cold]
#[inline(never)]
fn missing() -> c_int {
    black_box(-4)
}

/// The list of one completion.
#[inline(always)]
fn back(cq: &mut CompletionQueue<AnyList>) -> Done<AnyList> {
    let completion = cq.poll_one().map_err(dead)?.ok_or_else(missing)?;
    if completion.status().is_err() {
        return Err(missing());
    }
    completion.into_entry().ok_or_else(missing)
}

#[inline(always)]
fn piece_of(list: &mut AnyList) -> Done<OpenBuf> {
    match list.pop_front() {
        Some(AnyBuf::Open(piece)) => Ok(piece),
        _ => Err(missing()),
    }
}

/// The piece, moved to other bytes of its region.
#[inline(always)]
fn moved(mut piece: OpenBuf, from: usize, len: usize) -> Done<OpenBuf> {
    piece.set_range(from, len).map_err(beyond)?;
    Ok(piece)
}

#[inline(always)]
pub fn one(it: &mut Pieces) -> Done {
    let piece = moved(it.piece.take().ok_or_else(missing)?, it.from[0], it.len)?;
    it.qp.post_send(wr::RdmaWrite::new(piece, it.at)).map_err(refused)?;
    it.piece = Some(piece_of(&mut back(&mut it.cq)?)?);
    Ok(())
}

#[inline(always)]
pub fn header(it: &mut Pieces) -> Done {
    let header = it.header.take().ok_or_else(missing)?;
    let piece = moved(it.piece.take().ok_or_else(missing)?, it.from[1], it.len)?;
    it.qp.post_send(wr::RdmaWrite::new((header, piece), it.at)).map_err(refused)?;
    let mut list = back(&mut it.cq)?;
    it.header = list.pop_front().and_then(AnyBuf::into_buf);
    it.piece = Some(piece_of(&mut list)?);
    Ok(())
}

#[inline(always)]
pub fn list16(it: &mut Pieces) -> Done {
    let (mut old, mut list) = (std::mem::take(&mut it.list), AnyList::new());
    for &from in it.from.iter().rev() {
        list.push_front(moved(piece_of(&mut old)?, from, it.len)?);
    }
    it.qp.post_send(wr::RdmaWrite::new(list, it.at)).map_err(refused)?;
    it.list = back(&mut it.cq)?;
    Ok(())
}
