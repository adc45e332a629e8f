//! A client. It reads the table by itself, and asks the server to write.

use proverbs::completion::{Sent, WcOpcode};
use proverbs::prelude::*;

use crate::Result;
use crate::server::REFUSED;
use crate::table::{BUCKET, Request, SLOT, Slot, bucket};

pub struct Client {
    pub qp: QueuePair<Rc, Rts>,
    pub cq: CompletionQueue,
    /// The server's table.
    pub table: RemoteSlice<RemoteRead>,
    pub buckets: usize,
    /// The buffer for READs and requests.
    pub buf: Option<Buf>,
    /// The number of RDMA READs so far, including those that raced with the writer.
    pub reads: u64,
    /// Requests to the server so far.
    pub requests: u64,
}

impl Client {
    /// Gets the value of a key with one RDMA READ, or more while the server writes to the same
    /// bucket.
    pub fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let key = key.as_bytes();
        let at = bucket(key, self.buckets) * BUCKET;
        let from = self.table.slice(at as u64, BUCKET as u64)?;
        loop {
            let buf = self.buf.take().ok_or("the buffer is lost")?;
            self.qp.post_send(wr::RdmaRead::new(buf, from.read()))?;
            self.reads += 1;
            let read = self.wait(WcOpcode::RdmaRead)?;
            let buf = self.buf.insert(read);
            let slots =
                buf.chunks_exact(SLOT).map(|bytes| Slot::from_bytes(bytes.try_into().ok()?));
            // A torn slot may contain the key: read again.
            if let Some(slots) = slots.collect::<Option<Vec<Slot>>>() {
                let mine = slots.into_iter().find(|slot| slot.key == key && !key.is_empty());
                return Ok(mine.map(|slot| slot.value));
            }
        }
    }

    /// Asks the server to write the value of a key, and waits until it has done so.
    pub fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let (key, value) = (key.as_bytes().to_vec(), value.to_vec());
        // Rejects a slot that the server would reject.
        let slot = Slot { version: 0, key, value };
        slot.to_bytes()?;
        self.ask(&Request::Put { key: slot.key, value: slot.value })
    }

    /// Asks the server to remove a key. Fails if it does not exist.
    pub fn remove(&mut self, key: &str) -> Result<()> {
        let key = key.as_bytes().to_vec();
        Slot { version: 0, key: key.clone(), value: Vec::new() }.to_bytes()?;
        self.ask(&Request::Remove { key })
    }

    /// Asks the server to stop.
    pub fn stop(&mut self) -> Result<()> {
        self.ask(&Request::Stop)
    }

    fn ask(&mut self, request: &Request) -> Result<()> {
        let mut buf = self.buf.take().ok_or("the buffer is lost")?;
        buf.copy_from(&request.to_bytes())?;
        self.requests += 1;
        self.qp.post_send(wr::Send::new(buf))?;
        let answer = self.answer()?;
        let result = match answer.split_first() {
            Some((&REFUSED, why)) => Err(String::from_utf8_lossy(why).into_owned().into()),
            _ => Ok(()),
        };
        // The reply's buffer becomes the receive for the next one.
        self.qp.post_recv(wr::Recv::new(answer))?;
        result
    }

    /// Waits for the reply and for the request's own completion.
    fn answer(&mut self) -> Result<Buf> {
        let mut answer = None;
        while answer.is_none() || self.buf.is_none() {
            for completion in self.cq.poll()? {
                match completion.outcome() {
                    Outcome::Received(message) => answer = message.entry,
                    Outcome::Sent(sent) => self.buf = sent.entry,
                    Outcome::Failed(failed) => return Err(failed.error.into()),
                    _ => {}
                }
            }
            std::thread::yield_now();
        }
        answer.ok_or_else(|| "a reply without a buffer".into())
    }

    /// Waits for the one send that is outstanding.
    fn wait(&mut self, opcode: WcOpcode) -> Result<Buf> {
        loop {
            for completion in self.cq.poll()? {
                match completion.outcome() {
                    Outcome::Sent(Sent { opcode: done, entry: Some(buf), .. })
                        if done == opcode =>
                    {
                        return Ok(buf);
                    }
                    Outcome::Failed(failed) => return Err(failed.error.into()),
                    _ => {}
                }
            }
        }
    }
}
