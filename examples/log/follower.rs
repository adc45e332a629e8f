//! A follower, whose memory the leader writes to.

use proverbs::endpoint::{ConnectError, Endpoint, RcConnector};
use proverbs::memory::OpenBuf;
use proverbs::prelude::*;

use crate::Result;
use crate::entry::{self, LEN, SLOT};

/// The memory of a log, which outlives the follower.
pub type Memory = Vec<u64>;

/// The memory of an empty log.
pub fn blank() -> Memory {
    vec![0; LEN / 8]
}

/// READs that may be outstanding.
const READS: u8 = 4;
/// How often a rejected READ is posted again.
const TRIES: u32 = 100;
/// The number of entries that one READ transfers.
const CHUNK: u64 = 16;

profile! { CatchUp { entry: OpenBuf } }

pub struct Follower {
    qp: QueuePair<Rc, Rts, CatchUp>,
    cq: CompletionQueue<OpenBuf>,
    log: MemoryRegion<RemoteWrite, Memory>,
    /// The number of RDMA READs that it needed to catch up.
    pub reads: u64,
}

/// A follower that has not joined the leader yet.
pub struct Starting {
    connector: RcConnector<CatchUp>,
    cq: CompletionQueue<OpenBuf>,
    log: MemoryRegion<RemoteWrite, Memory>,
}

impl Starting {
    pub fn new(context: Context, gid_index: Option<u8>, memory: Memory) -> Result<Starting> {
        let pd = context.alloc_pd()?;
        let depth = Depth { send: u32::from(READS), recv: 1 };
        let cq = context.create_cq(depth.send + 1 + depth.recv)?;
        let qp = pd.create_qp::<Rc, CatchUp>(&cq, &cq, depth)?;
        let access = QpAccess::REMOTE_WRITE;
        let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access })?;
        let log = pd.region::<RemoteWrite>().create_in(memory)?;
        let mut connector = RcConnector::new(qp, gid_index)?;
        connector.set_initiator_depth(ReadDepth::new(READS).ok_or("at most 128")?);
        connector.export(log.remote())?;
        Ok(Starting { connector, cq, log })
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.connector.endpoint()
    }

    /// Connects to the leader, which writes the entries from `from` on. Reads the missing entries
    /// before `from`.
    pub fn catch_up(self, leader: &Endpoint, from: u64) -> Result<Follower> {
        let qp = self.connector.connect_to(leader).map_err(ConnectError::from)?;
        let mut follower = Follower { qp, cq: self.cq, log: self.log, reads: 0 };
        let log: RemoteSlice<RemoteRead> = leader.region(0)?;
        let mut next = follower.first_missing()?;
        let mut refused = 0;
        while next < from || follower.qp.sends_outstanding() > 0 {
            while next < from && follower.qp.send_room() > 0 {
                let count = CHUNK.min(from - next);
                let (at, len) = (entry::offset(next), count as usize * SLOT);
                // The READ writes directly to the log.
                let here = follower.log.piece(at, len)?;
                let there = log.slice(at as u64, len as u64)?;
                if let Err(error) = follower.qp.post_send(wr::RdmaRead::new(here, there.read())) {
                    refused += 1;
                    if refused > TRIES {
                        return Err(error.into());
                    }
                    break; // the device's own queue is full: poll first
                }
                follower.reads += 1;
                next += count;
            }
            for completion in follower.cq.poll()? {
                match completion.outcome() {
                    Outcome::Sent(_) => {}
                    Outcome::Failed(failed) => return Err(failed.error.into()),
                    _ => unreachable!("nothing is received"),
                }
            }
        }
        Ok(follower)
    }
}

impl Follower {
    /// The text of entry `n`, if it has arrived.
    pub fn get(&self, n: u64) -> Result<Option<Vec<u8>>> {
        let mut slot = [0; SLOT];
        self.log.read_at(entry::offset(n), &mut slot)?;
        Ok(entry::from_bytes(n, &slot))
    }

    /// The last committed entry, according to the leader.
    pub fn committed(&self) -> Result<u64> {
        let mut number = [0; 8];
        self.log.read_at(0, &mut number)?;
        Ok(u64::from_ne_bytes(number))
    }

    fn first_missing(&self) -> Result<u64> {
        let mut n = 1;
        while n <= entry::MOST && self.get(n)?.is_some() {
            n += 1;
        }
        Ok(n)
    }

    /// Drops the queue pair without notifying the leader. Returns the memory.
    pub fn die(self) -> Result<Memory> {
        drop(self.qp);
        Ok(self.log.destroy()?)
    }
}
