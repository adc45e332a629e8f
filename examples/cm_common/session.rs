//! One connection with its messages in order, which notices when the peer disconnects.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proverbs::cm::{CmId, ConnParam, Connection, HasDevice, Request, RouteResolved, Tcp};
use proverbs::completion::{WcOpcode, WcStatus};
use proverbs::device::Protocol;
use proverbs::state::Init;
use proverbs::transport::Rc;
use proverbs::{
    Buf, CompletionChannel, CompletionQueue, DefaultProfile, Depth, ErrorKind, Outcome, Pool,
    ProtectionDomain, QueuePair, wr,
};

use super::{PATIENCE, Result, STEP};

/// The longest wait before the session checks whether the peer has disconnected.
const NAP: Duration = Duration::from_millis(20);

/// The capacity of a session.
#[derive(Clone, Copy)]
pub struct Buffers {
    /// The number of messages from the peer that are not read yet, and their size in bytes.
    pub receives: u32,
    pub message: usize,
    /// The number of sends, reads and writes in flight, and their size in bytes.
    pub sends: u32,
    pub size: usize,
}

impl Buffers {
    /// For a peer that waits for each reply.
    pub fn in_turn(message: usize, size: usize) -> Buffers {
        Buffers { receives: 4, message, sends: 2, size }
    }

    /// Sends without a buffer are inline.
    fn depth(&self) -> Depth {
        Depth { send: self.sends + 14, recv: self.receives }
    }
}

/// One end of a connection.
pub struct Session {
    pub connection: Connection,
    pub pd: ProtectionDomain,
    /// Buffers for sends, reads and writes.
    pub pool: Pool,
    channel: CompletionChannel,
    cq: CompletionQueue,
    arrived: VecDeque<Vec<u8>>,
    done: VecDeque<(WcOpcode, Option<Buf>)>,
}

/// The parts of a session before there is a connection.
struct Parts {
    pd: ProtectionDomain,
    pool: Pool,
    channel: CompletionChannel,
    cq: CompletionQueue,
    qp: QueuePair<Rc, Init>,
}

impl Parts {
    fn new<S: HasDevice>(id: &CmId<Tcp, S>, buffers: Buffers) -> Result<Parts> {
        let (context, pd) = (id.context()?, id.pd()?);
        let channel = context.create_comp_channel()?;
        let depth = buffers.depth();
        let cq = context.cq(0).queue_pairs(1, depth).channel(&channel).create()?;
        let receives = pd.create_pool(buffers.receives as usize, buffers.message)?;
        let pool = pd.create_pool(buffers.sends as usize, buffers.size)?;
        let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth)?;
        // Before the peer can send.
        while let Some(buf) = receives.take() {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        Ok(Parts { pd, pool, channel, cq, qp })
    }
}

impl Session {
    pub fn connect(id: CmId<Tcp, RouteResolved>, buffers: Buffers) -> Result<Session> {
        let Parts { pd, pool, channel, cq, qp } = Parts::new(&id, buffers)?;
        let connection = id.connect(qp, &ConnParam::default(), *STEP)?;
        Ok(Session::new(connection, pd, pool, channel, cq))
    }

    pub fn accept(request: Request<Tcp>, buffers: Buffers) -> Result<Session> {
        let Parts { pd, pool, channel, cq, qp } = Parts::new(&request.id, buffers)?;
        let connection = request.accept(qp, &Default::default(), *STEP)?;
        Ok(Session::new(connection, pd, pool, channel, cq))
    }

    fn new(
        connection: Connection,
        pd: ProtectionDomain,
        pool: Pool,
        channel: CompletionChannel,
        cq: CompletionQueue,
    ) -> Session {
        let (arrived, done) = Default::default();
        Session { connection, pd, pool, channel, cq, arrived, done }
    }

    /// The next message; `None` if the peer has disconnected.
    pub fn message(&mut self) -> Result<Option<Vec<u8>>> {
        while self.arrived.is_empty() {
            if !self.wait("a message")? {
                return Ok(None);
            }
        }
        Ok(self.arrived.pop_front())
    }

    /// The buffer of the next `opcode` that completes. Buffers of other sends return to the pool.
    pub fn finished(&mut self, opcode: WcOpcode) -> Result<Option<Buf>> {
        loop {
            while let Some((done, buf)) = self.done.pop_front() {
                if done == opcode {
                    return Ok(buf);
                }
            }
            if !self.wait("a completion")? {
                return Err("the peer disconnected during an exchange".into());
            }
        }
    }

    /// Closes the connection cleanly: both sides disconnect, and every buffer returns to its pool.
    pub fn close(self) -> Result<()> {
        let Session { connection, mut cq, .. } = self;
        let port = connection.id.port();
        let is_iwarp = connection.id.context()?.protocol(port)? == Protocol::Iwarp;
        let mut ended = connection.disconnect()?;
        // Linux's siw does not flush work requests that were posted after the peer closed (R24.7).
        // Their buffers return when the queue pair is destroyed.
        let patience = if is_iwarp { Duration::from_secs(1) } else { *STEP };
        match ended.qp.drain_within(&mut cq, patience, |_| {}) {
            Err(error) if is_iwarp && error.errno() == Some(libc::ETIMEDOUT) => {}
            drained => drained?,
        }
        ended.qp.destroy()?;
        ended.id.wait_disconnected(*STEP)?;
        Ok(ended.id.destroy()?)
    }

    fn is_disconnected(&mut self) -> Result<bool> {
        match self.connection.id.wait_disconnected(Duration::ZERO) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for completions; false if the peer disconnected instead.
    fn wait(&mut self, what: &str) -> Result<bool> {
        let began = Instant::now();
        loop {
            let before = self.arrived.len() + self.done.len();
            // Checked first, so that messages from before the end are not missed.
            let is_over = self.is_disconnected()?;
            let nap = if is_over { Duration::ZERO } else { NAP };
            let mut flushed = None;
            for completion in self.channel.wait_timeout(&mut self.cq, nap)? {
                match completion.outcome() {
                    Outcome::Received(received) => {
                        let buf = received.entry.ok_or("a receive without its buffer")?;
                        self.arrived.push_back(buf.to_vec());
                        self.connection.qp.post_recv(wr::Recv::new(buf))?;
                    }
                    Outcome::Sent(sent) => self.done.push_back((sent.opcode, sent.entry)),
                    // On iWARP the peer's disconnection flushes the posted work requests, perhaps
                    // before its event arrives.
                    Outcome::Failed(failed) if failed.error.status == WcStatus::WrFlush => {
                        flushed = Some(failed.error.to_string());
                    }
                    Outcome::Failed(failed) => return Err(failed.error.to_string().into()),
                    _ => return Err("an unexpected completion".into()),
                }
            }
            if self.arrived.len() + self.done.len() > before {
                return Ok(true);
            }
            if is_over {
                return Ok(false);
            }
            if let Some(flushed) = flushed {
                let ended = self.connection.id.wait_disconnected(*STEP);
                return ended.map(|()| false).map_err(|_| flushed.into());
            }
            if began.elapsed() > *PATIENCE {
                return Err(format!("waited {} s for {what}", PATIENCE.as_secs()).into());
            }
        }
    }
}
