//! The buffers of an entry that came back.

use proverbs::prelude::*;

use crate::books::*;
use crate::posts::buffers_of;
use crate::program::Then;
use crate::wire::*;
use crate::world::World;

impl<T: Wire<P>, P: Kind> World<T, P> {
    pub fn bytes_of(&self, entry: &Option<Held>) -> Option<Vec<u8>> {
        match entry {
            Some(AnyBuf::Buf(buf)) => Some(buf.to_vec()),
            Some(AnyBuf::List(list)) => Some(list.segments().flatten().copied().collect()),
            Some(AnyBuf::Shared(buf)) => Some(buf.to_vec()),
            _ => None,
        }
    }

    /// Handles an entry that came back for `wr`, as the program would.
    pub fn take_in(&mut self, entry: Held, from: Place, wr: &Wr, then: Then) -> Check {
        if then == Then::Forget {
            for &buffer in &wr.buffers {
                self.places.go(buffer, from, Place::Forgotten)?;
            }
            std::mem::forget(entry);
            return Ok(());
        }
        let keep = then == Then::Keep && self.held.len() < self.config.buffers / 2;
        let got = if keep {
            let mut got = Vec::new();
            for buf in buffers_of(entry) {
                match buf {
                    Ok(buf) => {
                        got.push(*buf.context());
                        self.places.go(*buf.context(), from, Place::Program)?;
                        self.held.push(buf);
                    }
                    Err(()) => {
                        let buffer = wr.buffers[0];
                        got.push(buffer);
                        self.places.go(buffer, from, Place::Home)?;
                    }
                }
            }
            got
        } else {
            self.came_back_as(entry, from, wr)?
        };
        hold!(got == wr.buffers, "{got:?} came back for {:?}", wr.buffers);
        Ok(())
    }

    /// Frees an entry that came back for `wr`. Returns the numbers of its buffers.
    pub fn came_back_as(&mut self, entry: Held, from: Place, wr: &Wr) -> Check<Vec<u32>> {
        let shared = wr.buffers.first().copied();
        let mut got = Vec::new();
        for buf in buffers_of(entry) {
            let buffer = match &buf {
                Ok(buf) => *buf.context(),
                Err(()) => shared.ok_or("a shared buffer came back that was not posted")?,
            };
            got.push(buffer);
            self.places.go(buffer, from, Place::Home)?;
        }
        Ok(got)
    }
}

/// An entry and the numbers of its buffers; a shared buffer has no visible number.
pub fn numbered(entry: Option<Held>, places: &Places) -> (Option<Held>, Vec<u32>) {
    match entry {
        Some(AnyBuf::Open(piece)) => {
            let ids = vec![places.piece(piece.len())];
            (Some(AnyBuf::Open(piece)), ids)
        }
        Some(AnyBuf::Buf(buf)) => {
            let ids = vec![*buf.context()];
            (Some(AnyBuf::Buf(buf)), ids)
        }
        Some(AnyBuf::List(list)) => {
            let bufs: Vec<WithId> = list.filter_map(AnyBuf::into_buf).collect();
            let ids = bufs.iter().map(|buf| *buf.context()).collect();
            (Some(AnyBuf::List(bufs.into_iter().collect())), ids)
        }
        other => (other, Vec::new()),
    }
}
