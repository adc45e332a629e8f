//! An RDMA connection that carries one submission queue and its completion queue.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proverbs::cm::{AcceptData, AcceptParam, Connection, PrivateData, RejectData, Request, Tcp};
use proverbs::completion::{WcOpcode, WcStatus};
use proverbs::ext::windows::Revocable;
use proverbs::prelude::*;

use crate::patience::patience;
use crate::wire::*;

/// Bytes of the largest transfer, and of the largest data in a capsule.
pub const MAX_TRANSFER: usize = 128 * 1024;
pub const IN_CAPSULE: usize = 8192;
/// Accepting a connection takes at most this long.
const LONG: Duration = Duration::from_secs(30);

/// A READ or WRITE, and a completion.
const SENDS: u32 = 2;
/// The longest wait before the queue checks whether the host has disconnected.
const NAP: Duration = Duration::from_millis(20);

pub struct Queue {
    connection: Connection,
    channel: CompletionChannel,
    cq: CompletionQueue,
    /// For data and for completions. One buffer each: one command is executed at a time.
    buffers: (Pool, Pool),
    /// Capsules that have not been handled yet.
    arrived: VecDeque<Buf>,
    /// The buffer of a completed READ.
    fetched: Option<Buf>,
    /// The number of replies, and the number sent as SEND_WITH_INV.
    pub answered: (u64, u64),
}

/// The next message from the host, or its absence.
pub enum Next {
    Capsule(Buf),
    /// No message for some time.
    Silence,
    /// The host has disconnected.
    Ended,
}

impl Queue {
    /// Accepts a connection that has room for all commands that the host may send.
    pub fn accept(request: Request<Tcp>, asked: RdmaRequest) -> Result<Queue> {
        let (context, pd) = (request.id.context()?, request.id.pd()?);
        let depth = Depth { send: SENDS, recv: asked.sq_size.into() };
        let channel = context.create_comp_channel()?;
        let cq = context.cq(0).queue_pairs(1, depth).channel(&channel).create()?;
        let mut qp = request.id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth)?;
        let capsules = pd.create_pool(asked.sq_size.into(), COMMAND + IN_CAPSULE)?;
        while let Some(buf) = capsules.take() {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        let (data, completions) =
            (pd.create_pool(1, MAX_TRANSFER)?, pd.create_pool(1, COMPLETION)?);
        let private_data = rdma_accept(asked.sq_size);
        let param = AcceptParam { private_data, ..Default::default() };
        let connection = request.accept(qp, &param, patience(LONG))?;
        let (arrived, fetched, answered) = Default::default();
        let buffers = (data, completions);
        Ok(Queue { connection, channel, cq, buffers, arrived, fetched, answered })
    }

    /// The next capsule, for at most `silence`.
    pub fn next(&mut self, silence: Duration) -> Result<Next> {
        let end = Instant::now() + silence;
        // Commands of a host that is gone are not executed: it may have connected again.
        while !self.is_disconnected()? {
            if let Some(capsule) = self.arrived.pop_front() {
                return Ok(Next::Capsule(capsule));
            }
            if !self.wait(NAP)? {
                break;
            }
            if self.arrived.is_empty() && Instant::now() > end {
                return Ok(Next::Silence);
            }
        }
        Ok(Next::Ended)
    }

    /// The key of a received command that requests its invalidation.
    pub fn another_key(&mut self) -> Result<Option<Sgl>> {
        self.wait(Duration::ZERO)?;
        let commands = self.arrived.iter().filter_map(|capsule| Command::parse(capsule).ok());
        let mut sgls = commands.filter_map(|command| Sgl::parse(&command, MAX_TRANSFER).ok());
        Ok(sgls.find(|sgl| sgl.kind == Kind::ToInvalidate))
    }

    /// Makes room for another capsule. Call this before the completion of this one is sent, because
    /// the host then sends the next.
    pub fn take_more(&mut self, capsule: Buf) -> Result<()> {
        Ok(self.connection.qp.post_recv(wr::Recv::new(capsule))?)
    }

    /// The buffer for data, filled with `len` zeroes.
    pub fn data(&mut self, len: usize) -> Result<Buf> {
        let mut data = self.buffers.0.take().ok_or("the buffer for data is in use")?;
        data.set_len(len);
        data.fill(0);
        Ok(data)
    }

    /// Reads the host's data with RDMA READ.
    pub fn fetch(&mut self, data: Buf, from: Sgl) -> Result<Buf> {
        let from = RemoteSlice::<RemoteRead>::from_parts(from.addr, from.len as u64, from.key);
        self.connection.qp.post_send(wr::RdmaRead::new(data, from.read()))?;
        self.settle()?;
        self.fetched.take().ok_or_else(|| "a READ without its buffer".into())
    }

    /// Writes data to the host with RDMA WRITE. A completion that is sent later also arrives later.
    pub fn put(&mut self, data: Buf, to: Sgl) -> Result<()> {
        let to = RemoteSlice::<RemoteWrite>::from_parts(to.addr, to.len as u64, to.key);
        self.connection.qp.post_send(wr::RdmaWrite::new(data, to.write()))?;
        Ok(())
    }

    /// Sends a completion, which also invalidates the key of `invalidate`. Waits until it and all
    /// earlier work requests have completed.
    pub fn answer(&mut self, completion: &[u8; COMPLETION], invalidate: Option<Sgl>) -> Result<()> {
        let mut buf = self.buffers.1.take().ok_or("the completion's buffer is in use")?;
        buf.copy_from(completion)?;
        let qp = &mut self.connection.qp;
        // From a buffer, because siw does not send SEND_WITH_INV with inline data.
        match invalidate {
            None => qp.post_send(wr::Send::new(buf))?,
            Some(Sgl { addr, len, key, .. }) => {
                let lent = RemoteSlice::<RemoteRead>::from_parts(addr, len as u64, key);
                qp.post_send(ext::windows::SendWithInv::new(buf, Revocable::new(lent)))?;
            }
        }
        self.answered.0 += 1;
        self.answered.1 += u64::from(invalidate.is_some());
        self.settle()
    }

    /// Closes the connection.
    pub fn close(self) -> Result<()> {
        let Queue { connection, .. } = self;
        // Posted buffers return to their pools when the queue pair is dropped.
        let ended = connection.disconnect()?;
        ended.qp.destroy()?;
        Ok(ended.id.destroy()?)
    }

    /// Waits until all sends have completed. They fail if the host does not reply.
    fn settle(&mut self) -> Result<()> {
        while self.connection.qp.sends_outstanding() > 0 {
            let is_over = self.is_disconnected()?;
            let is_alive = self.wait(NAP)?;
            if self.connection.qp.sends_outstanding() > 0 && (is_over || !is_alive) {
                return Err("the host disconnected during a command".into());
            }
        }
        Ok(())
    }

    fn is_disconnected(&mut self) -> Result<bool> {
        match self.connection.id.wait_disconnected(Duration::ZERO) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), proverbs::ErrorKind::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes completions, and waits for them at most for `nap`. Returns false if the connection is
    /// closed.
    fn wait(&mut self, nap: Duration) -> Result<bool> {
        let mut is_alive = true;
        for completion in self.channel.wait_timeout(&mut self.cq, nap)? {
            match completion.outcome() {
                Outcome::Received(received) => self.arrived.extend(received.entry),
                Outcome::Sent(sent) if sent.opcode == WcOpcode::RdmaRead => {
                    self.fetched = sent.entry;
                }
                Outcome::Sent(_) => {}
                // The host's disconnection flushes receives, on iWARP perhaps before its event
                // arrives.
                Outcome::Failed(failed) if failed.error.status == WcStatus::WrFlush => {
                    is_alive = false;
                }
                Outcome::Failed(failed) => return Err(failed.error.to_string().into()),
                _ => return Err("an unexpected completion".into()),
            }
        }
        Ok(is_alive)
    }
}

/// The private data of an acceptance: the completion queue's size.
fn rdma_accept(cq_size: u16) -> AcceptData {
    let mut data = [0; PRIVATE_DATA];
    put(&mut data, 2, &cq_size.to_le_bytes());
    PrivateData::of(&data)
}

/// The private data of a rejection.
pub fn rdma_reject(refusal: Refusal) -> RejectData {
    let mut data = [0; 4];
    put(&mut data, 2, &(refusal as u16).to_le_bytes());
    PrivateData::of(&data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_their_fields_in_place() {
        assert_eq!(rdma_reject(Refusal::RecordFormat)[..], [0, 0, 2, 0]);
        assert_eq!(rdma_accept(0x120)[..4], [0, 0, 0x20, 1]);
    }
}
