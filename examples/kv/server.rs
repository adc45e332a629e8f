//! The server, which is the only writer of the table.

use proverbs::memory::{Memory, Writable};
use proverbs::prelude::*;

use crate::Result;
use crate::table::{BUCKET, Request, SLOT, SLOTS, Slot, bucket};

pub struct Server<M> {
    pub qp: QueuePair<Rc, Rts>,
    pub cq: CompletionQueue,
    /// The table, which clients may read.
    pub table: MemoryRegion<RemoteRead, M>,
    pub buckets: usize,
}

/// The reply to a request.
pub const DONE: u8 = b'+';
/// The reply that is followed by an error message.
pub const REFUSED: u8 = b'-';

impl<M: Memory<Protection = Writable>> Server<M> {
    /// Serves requests until a client sends stop. Returns their number.
    pub fn serve(&mut self) -> Result<u64> {
        let mut served = 0;
        loop {
            let mut requests = Vec::new();
            for completion in self.cq.poll()? {
                match completion.outcome() {
                    Outcome::Received(message) => requests.push(message.entry),
                    Outcome::Failed(failed) => return Err(failed.error.into()),
                    _ => {} // a reply was sent
                }
            }
            if requests.is_empty() {
                std::thread::yield_now();
            }
            for buf in requests.into_iter().flatten() {
                served += 1;
                let request = Request::from_bytes(&buf);
                // Before the reply, because the client may send its next request immediately.
                self.qp.post_recv(wr::Recv::new(buf))?;
                let stop = matches!(request, Some(Request::Stop));
                let answer = match self.apply(request) {
                    Ok(()) => vec![DONE],
                    Err(error) => format!("{}{error}", char::from(REFUSED)).into_bytes(),
                };
                // Replies are short, so they are sent inline and need no buffer.
                let end = answer.len().min(64);
                self.qp.post_send(wr::Send::inline_slice(&answer[..end]))?;
                if stop {
                    self.settle()?;
                    return Ok(served);
                }
            }
        }
    }

    /// Waits until the replies have been sent.
    fn settle(&mut self) -> Result<()> {
        while self.qp.sends_outstanding() > 0 {
            for completion in self.cq.poll()? {
                completion.status()?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, request: Option<Request>) -> Result<()> {
        match request.ok_or("that is no request")? {
            Request::Put { key, .. } if key.is_empty() => Err("a key has at least one byte".into()),
            Request::Put { key, value } => self.put(key, value),
            Request::Remove { key } => self.remove(&key),
            Request::Stop => Ok(()),
        }
    }

    /// Writes the slot of the key, or an empty one.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        let slots = self.slots(&key)?;
        let mine = slots.iter().find(|(_, slot)| slot.key == key);
        let empty = || slots.iter().find(|(_, slot)| slot.key.is_empty());
        let (at, old) = mine.or_else(empty).ok_or("the bucket of this key is full")?;
        let version = old.version.wrapping_add(1);
        let bytes = Slot { version, key, value }.to_bytes()?;
        // During the write, a reader may see any mixture of old and new bytes, and detects it by
        // the checksum.
        Ok(self.table.write_at(*at, &bytes)?)
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        let slots = self.slots(key)?;
        let mine = slots.iter().find(|(_, slot)| slot.key == key && !key.is_empty());
        let (at, old) = mine.ok_or("there is no such key")?;
        let version = old.version.wrapping_add(1);
        let empty = Slot { version, key: Vec::new(), value: Vec::new() };
        Ok(self.table.write_at(*at, &empty.to_bytes()?)?)
    }

    /// The slots of the key's bucket, and their offsets.
    fn slots(&self, key: &[u8]) -> Result<Vec<(usize, Slot)>> {
        let first = bucket(key, self.buckets) * BUCKET;
        let mut slots = Vec::with_capacity(SLOTS);
        for at in (first..first + BUCKET).step_by(SLOT) {
            let mut bytes = [0; SLOT];
            self.table.read_at(at, &mut bytes)?;
            let slot = Slot::from_bytes(&bytes).ok_or("the table is damaged")?;
            slots.push((at, slot));
        }
        Ok(slots)
    }
}
