//! One end of the connection: its queues and its buffers.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proverbs::prelude::*;
use proverbs::transport::Transport;

use crate::Result;
use crate::cm_common::patience::patience;
use crate::connect::{Issues, Perf};
use crate::work::{Payload, Work};

pub struct End<T: Transport, R: Issues> {
    pub qp: QueuePair<T, Rts, Perf<R>>,
    pub cq: CompletionQueue,
    /// What the peer may write to and read from.
    pub open: MemoryRegion<RemoteAll>,
    /// Buffers that are not with the device.
    pub spare: Vec<Buf>,
    /// Messages that arrived.
    pub received: u64,
    /// Both ends share this machine's processors.
    pub local: bool,
    pub stall: Stall,
}

impl<T: Transport, R: Issues> End<T, R> {
    /// Takes what has completed: buffers of sends become spare, receives are counted and posted
    /// anew.
    pub fn poll(&mut self) -> Result<()> {
        let End { qp, cq, spare, received, stall, local, .. } = self;
        let mut some = false;
        for completion in cq.poll()? {
            some = true;
            let arrived = match completion.outcome() {
                Outcome::Selective(completion) => {
                    let done = qp.complete(completion).map_err(|_| "a completion of no send")?;
                    done.status?;
                    spare.extend(done.released);
                    continue;
                }
                Outcome::Received(message) => message.entry,
                Outcome::Datagram(message) => message.entry,
                Outcome::Failed(failed) => return Err(failed.error.into()),
                Outcome::Sent(_) => return Err("a completion of no send".into()),
            };
            *received += 1;
            if let Some(buf) = arrived {
                qp.post_recv(wr::Recv::new(buf))?;
            }
        }
        if some {
            stall.moved();
        } else {
            if *local {
                std::thread::yield_now();
            }
            stall.check()?;
        }
        Ok(())
    }

    /// A spare buffer of `size` bytes, once there is one.
    pub fn buffer(&mut self, size: usize) -> Result<Buf> {
        loop {
            if let Some(mut buf) = self.spare.pop() {
                buf.set_len(size);
                return Ok(buf);
            }
            self.poll()?;
        }
    }

    /// Posts one send, inline if there are bytes for that.
    pub fn post<W: Work<T, Issues = R>>(
        &mut self,
        work: &W,
        size: usize,
        inline: Option<&[u8]>,
        signaled: bool,
    ) -> Result<()> {
        while self.qp.send_room() == 0 {
            self.poll()?;
        }
        let payload = match inline {
            Some(bytes) => Payload::Inline(bytes),
            None => Payload::Buf(self.buffer(size)?),
        };
        work.post(&mut self.qp, payload, signaled)
    }

    /// Waits until every send is done.
    pub fn settle(&mut self) -> Result<()> {
        while self.qp.sends_outstanding() > 0 {
            self.poll()?;
        }
        Ok(())
    }
}

/// A run in which nothing moves for so long is over.
static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(20)));

/// Notices that nothing moves any more, as when a datagram is lost.
pub struct Stall {
    idle: u32,
    since: Option<Instant>,
}

impl Stall {
    pub fn new() -> Stall {
        Stall { idle: 0, since: None }
    }

    pub fn moved(&mut self) {
        *self = Stall::new();
    }

    /// To be called where nothing has moved.
    pub fn check(&mut self) -> Result<()> {
        self.idle = self.idle.wrapping_add(1);
        // Not so often: it asks for the time.
        if self.idle % 4096 != 0 {
            return Ok(());
        }
        if self.since.get_or_insert_with(Instant::now).elapsed() > *PATIENCE {
            let time = PATIENCE.as_secs();
            let why =
                format!("nothing has moved for {time} s: a lost message, or a peer that is gone");
            return Err(why.into());
        }
        Ok(())
    }
}
