//! One end of the connection: its queues and its buffers.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proverbs::prelude::*;
use proverbs::transport::Transport;

use crate::Result;
use crate::connect::{Issues, Perf};
use crate::patience::patience;
use crate::work::{Payload, Work};

pub struct End<T: Transport, R: Issues> {
    pub qp: QueuePair<T, Rts, Perf<R>>,
    pub cq: CompletionQueue,
    /// The region that the peer may write to and read from.
    pub open: MemoryRegion<RemoteAll>,
    /// Buffers that the device does not own.
    pub spare: Vec<Buf>,
    /// The number of received messages.
    pub received: u64,
    /// Whether both ends share this machine's processors.
    pub local: bool,
    pub stall: Stall,
}

impl<T: Transport, R: Issues> End<T, R> {
    /// Takes the available completions. Buffers of sends become spare; receives are counted and
    /// posted again.
    pub fn poll(&mut self) -> Result<()> {
        let End { qp, cq, spare, received, stall, local, .. } = self;
        let mut some = false;
        for completion in cq.poll()? {
            some = true;
            let arrived = match completion.outcome() {
                Outcome::Selective(completion) => {
                    let done = qp.complete(completion).map_err(|_| "an unexpected completion")?;
                    done.status?;
                    spare.extend(done.released);
                    continue;
                }
                Outcome::Received(message) => message.entry,
                Outcome::Datagram(message) => message.entry,
                Outcome::Failed(failed) => return Err(failed.error.into()),
                Outcome::Sent(_) => return Err("an unexpected completion".into()),
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

    /// Posts one send, inline if there are inline bytes.
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

    /// Waits until all sends have completed.
    pub fn settle(&mut self) -> Result<()> {
        while self.qp.sends_outstanding() > 0 {
            self.poll()?;
        }
        Ok(())
    }
}

/// A run without progress for this time has failed.
static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(20)));

/// Detects that there is no progress any more, for example because a datagram was lost.
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

    /// Call this when there was no progress.
    pub fn check(&mut self) -> Result<()> {
        self.idle = self.idle.wrapping_add(1);
        // Rarely, because it reads the clock.
        if self.idle % 4096 != 0 {
            return Ok(());
        }
        if self.since.get_or_insert_with(Instant::now).elapsed() > *PATIENCE {
            let time = PATIENCE.as_secs();
            let why = format!("no progress for {time} s: a message was lost, or the peer is gone");
            return Err(why.into());
        }
        Ok(())
    }
}
