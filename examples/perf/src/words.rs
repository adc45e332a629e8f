//! An rdma_cm connection for messages. Each message is a SEND.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proverbs::ErrorKind;
use proverbs::cm::{AcceptParam, CmId, ConnParam, Connection, Request, RouteResolved, Tcp};
use proverbs::prelude::*;

use crate::Result;
use crate::patience::STEP;

profile! {
    /// perftest does not serve READs here.
    Plain { initiator: NoReads }
}

const DEPTH: Depth = Depth { send: 4, recv: 4 };

pub struct Words {
    connection: Connection<Plain>,
    cq: CompletionQueue,
    /// Buffers for outgoing messages.
    pool: Pool,
    heard: VecDeque<Vec<u8>>,
}

/// Its parts before there is a connection.
struct Parts {
    qp: QueuePair<Rc, Init, Plain>,
    cq: CompletionQueue,
    pool: Pool,
}

impl Parts {
    /// Room for messages of up to `len` bytes.
    fn new<S: proverbs::cm::HasDevice>(id: &CmId<Tcp, S>, len: usize) -> Result<Parts> {
        let pd = id.pd()?;
        let cq = id.context()?.cq(0).queue_pairs(1, DEPTH).create()?;
        let mut qp = id.create_qp::<Plain>(&pd, &cq, &cq, DEPTH)?;
        let receives = pd.create_pool(DEPTH.recv as usize, len)?;
        // Before the peer can send.
        while let Some(buf) = receives.take() {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        Ok(Parts { qp, cq, pool: pd.create_pool(1, len)? })
    }
}

impl Words {
    pub fn connect(id: CmId<Tcp, RouteResolved>, len: usize) -> Result<Words> {
        let Parts { qp, cq, pool } = Parts::new(&id, len)?;
        let connection = id.connect(qp, &ConnParam::default(), *STEP)?;
        Ok(Words { connection, cq, pool, heard: VecDeque::new() })
    }

    pub fn accept(request: Request<Tcp>, len: usize) -> Result<Words> {
        let Parts { qp, cq, pool } = Parts::new(&request.id, len)?;
        let connection = request.accept(qp, &AcceptParam::default(), *STEP)?;
        Ok(Words { connection, cq, pool, heard: VecDeque::new() })
    }

    /// Sends a message, and waits at most `patience` until the peer has it.
    pub fn say(&mut self, word: &[u8], patience: Duration) -> Result<()> {
        let mut buf = self.pool.take().ok_or("a message is in flight")?;
        buf.copy_from(word)?;
        self.connection.qp.post_send(wr::Send::new(buf))?;
        self.wait(patience, |words| words.pool.available() > 0)
    }

    /// The next message.
    pub fn hear(&mut self, patience: Duration) -> Result<Vec<u8>> {
        self.wait(patience, |words| !words.heard.is_empty())?;
        Ok(self.heard.pop_front().ok_or("no word")?)
    }

    /// Whether there is a message.
    pub fn has_word(&mut self) -> Result<bool> {
        self.look()?;
        Ok(!self.heard.is_empty())
    }

    /// Both ends disconnect.
    pub fn close(self) -> Result<()> {
        let Words { connection, mut cq, .. } = self;
        let mut ended = connection.disconnect()?;
        ended.qp.drain(&mut cq, |_| {})?;
        ended.qp.destroy()?;
        Ok(ended.id.wait_disconnected(*STEP)?)
    }

    fn wait(&mut self, patience: Duration, is_there: impl Fn(&Words) -> bool) -> Result<()> {
        let began = Instant::now();
        loop {
            // Checked first, so that messages from before the end are not missed.
            let is_over = self.is_disconnected()?;
            self.look()?;
            if is_there(self) {
                return Ok(());
            }
            if is_over {
                return Err("the peer disconnected: see its output".into());
            }
            if began.elapsed() > patience {
                return Err(format!("nothing within {} s", patience.as_secs()).into());
            }
            std::thread::yield_now();
        }
    }

    fn is_disconnected(&mut self) -> Result<bool> {
        match self.connection.id.wait_disconnected(Duration::ZERO) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn look(&mut self) -> Result<()> {
        for completion in self.cq.poll()? {
            match completion.outcome() {
                Outcome::Received(received) => {
                    let buf = received.entry.ok_or("a receive without its buffer")?;
                    self.heard.push_back(buf.to_vec());
                    self.connection.qp.post_recv(wr::Recv::new(buf))?;
                }
                // Its buffer returns to the pool.
                Outcome::Sent(_) => {}
                Outcome::Failed(failed) => return Err(failed.error.to_string().into()),
                _ => return Err("an unexpected completion".into()),
            }
        }
        Ok(())
    }
}
