//! The leader. It writes each entry to every follower, and counts the acknowledgements.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proverbs::bounded::ResponderDepth;
use proverbs::completion::WcError;
use proverbs::endpoint::{ConnectError, Endpoint, RcConnector};
use proverbs::post::PostError;
use proverbs::prelude::*;
use proverbs::qp::Drained;

use crate::entry::{self, LEN, SLOT};
use crate::patience::patience;
use crate::{FOLLOWERS, Result};

/// The maximum number of outstanding work requests for each follower.
const DEPTH: u32 = 32;
/// The number of entries in a post. With the number of the last committed entry they fill a quarter
/// of the queue, and have one completion.
const BATCH: usize = 7;
/// The number of followers that form a majority together with the leader.
const NEEDED: usize = 2;
/// How often a rejected post is tried again.
const TRIES: u32 = 100;
/// The time after which a silent follower is considered dead.
static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(20)));

profile! { Fanout { entry: SharedBuf, signaling: Selective, max_inline: 8 } }

pub struct Leader {
    pd: ProtectionDomain,
    cq: CompletionQueue<SharedBuf>,
    pool: Pool,
    gid_index: Option<u8>,
    /// Followers that catch up read it.
    log: MemoryRegion<RemoteRead>,
    /// Entries that are not posted yet.
    batch: Vec<SharedBuf>,
    /// The last entry of the log.
    last: u64,
    links: Links,
}

/// State that completions change. They borrow the completion queue, so this is a separate struct.
#[derive(Default)]
struct Links {
    places: [Option<Link>; FOLLOWERS],
    committed: u64,
}

/// A follower that the leader considers alive.
struct Link {
    qp: QueuePair<Rc, Rts, Fanout>,
    log: RemoteSlice<RemoteWrite>,
    /// The last entry that it acknowledged.
    has: u64,
    /// Whether it also has all entries before that.
    is_whole: bool,
    failed: Option<WcError>,
}

impl Leader {
    pub fn new(context: Context, gid_index: Option<u8>) -> Result<Leader> {
        let pd = context.alloc_pd()?;
        // For each follower, its sends and one for a drain.
        let cq = context.create_cq(FOLLOWERS as u32 * (DEPTH + 1 + 1))?;
        let pool = pd.create_pool(2 * DEPTH as usize, SLOT)?;
        let log = pd.register::<RemoteRead>(LEN)?;
        let batch = Vec::with_capacity(BATCH);
        let links = Links::default();
        Ok(Leader { pd, cq, pool, gid_index, log, batch, last: 0, links })
    }

    pub fn gid_index(&self) -> Option<u8> {
        self.gid_index
    }

    /// The last entry that a majority has.
    pub fn committed(&self) -> u64 {
        self.links.committed
    }

    /// Whether the leader considers this follower alive.
    pub fn is_alive(&self, place: usize) -> bool {
        self.links.places[place].is_some()
    }

    /// Adds a follower. Returns the endpoint that it connects to, and the number of the first entry
    /// that it will receive. It reads the entries before by itself.
    pub fn join(&mut self, place: usize, follower: &Endpoint) -> Result<(Endpoint, u64)> {
        self.post()?;
        self.leave(place)?;
        let depth = Depth { send: DEPTH, recv: 1 };
        let qp = self.pd.create_qp::<Rc, Fanout>(&self.cq, &self.cq, depth)?;
        let access = QpAccess::REMOTE_READ;
        let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access })?;
        let mut connector = RcConnector::new(qp, self.gid_index)?;
        connector.set_responder_depth(ResponderDepth::new(4).ok_or("at most 128")?);
        connector.export(self.log.remote())?;
        let mine = connector.endpoint().clone();
        let qp = connector.connect_to(follower).map_err(ConnectError::from)?;
        let log = follower.region(0)?;
        self.links.places[place] =
            Some(Link { qp, log, has: self.last, is_whole: false, failed: None });
        Ok((mine, self.last + 1))
    }

    /// Counts a follower that has caught up.
    pub fn admit(&mut self, place: usize) {
        if let Some(link) = &mut self.links.places[place] {
            link.is_whole = true;
        }
    }

    /// Appends an entry. It is committed later: see [`commit`](Self::commit).
    pub fn append(&mut self, text: &[u8]) -> Result<()> {
        let n = self.last + 1;
        if n > entry::MOST {
            return Err(format!("the log has room for {} entries", entry::MOST).into());
        }
        let slot = entry::to_bytes(n, text)?;
        let mut buf = loop {
            match self.pool.take() {
                Some(buf) => break buf,
                None => self.turn()?, // all are in flight
            }
        };
        buf.copy_from(&slot)?;
        self.log.write_at(entry::offset(n), &slot)?;
        self.last = n;
        let mut buf = buf.freeze();
        buf.set_id(n);
        self.batch.push(buf);
        if self.batch.len() == BATCH { self.post() } else { Ok(()) }
    }

    /// Posts the appended entries, and waits until a majority has them.
    pub fn commit(&mut self) -> Result<()> {
        self.post()?;
        let end = Instant::now() + *PATIENCE;
        while self.links.committed < self.last {
            self.turn()?;
            let alive = self.links.places.iter().flatten().count();
            if alive < NEEDED || Instant::now() > end {
                let (last, committed) = (self.last, self.links.committed);
                let what =
                    format!("{alive} followers: {committed} of {last} entries are committed");
                return Err(what.into());
            }
        }
        Ok(())
    }

    /// Sends the number of the last committed entry to all followers, and waits until they have
    /// everything.
    pub fn settle(&mut self) -> Result<()> {
        self.post()?;
        self.post_to_all(&[])?;
        while self.links.places.iter().flatten().any(|link| link.qp.sends_outstanding() > 0) {
            self.turn()?;
        }
        Ok(())
    }

    /// Posts the batch to every follower.
    fn post(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.post_to_all(&batch)
    }

    fn post_to_all(&mut self, batch: &[SharedBuf]) -> Result<()> {
        for place in 0..FOLLOWERS {
            let mut rest: Vec<SharedBuf> = batch.to_vec();
            let mut tries = 0;
            while let Some(link) = &mut self.links.places[place] {
                if link.qp.send_room() > rest.len() {
                    match link.post(rest, self.links.committed) {
                        Ok(()) => break,
                        // The device's own queue is full. The accepted work requests are in flight.
                        Err(error) if tries < TRIES => rest = error.into_rejected().collect(),
                        Err(error) => return Err(error.into()),
                    }
                    tries += 1;
                }
                self.turn()?;
            }
        }
        Ok(())
    }

    /// Takes the available completions, and drops followers that failed.
    fn turn(&mut self) -> Result<()> {
        for completion in self.cq.poll()? {
            self.links.take(completion);
        }
        for place in 0..FOLLOWERS {
            if self.links.places[place].as_ref().is_some_and(|link| link.failed.is_some()) {
                self.leave(place)?;
            }
        }
        self.links.count();
        Ok(())
    }

    /// Takes back the buffers of a follower, if there is one.
    fn leave(&mut self, place: usize) -> Result<()> {
        let Some(link) = self.links.places[place].take() else { return Ok(()) };
        let mut qp = link.qp.to_error()?;
        qp.drain(&mut self.cq, |found| match found {
            Drained::Entry(_) => {}
            Drained::Other(completion) => self.links.take(completion),
        })?;
        Ok(())
    }
}

impl Links {
    /// Handles a completion of one of the followers.
    fn take(&mut self, completion: Completion<'_, SharedBuf>) {
        let qp_num = completion.qp_num();
        let mut links = self.places.iter_mut().flatten();
        let Some(link) = links.find(|link| link.qp.qp_num() == qp_num) else { return };
        let Ok(done) = link.qp.complete(completion) else { return };
        match done.status {
            Ok(()) => link.has = done.released.map(|buf| buf.id()).max().unwrap_or(0).max(link.has),
            Err(error) => link.failed = Some(error),
        }
    }

    /// Marks the entries that a majority has as committed.
    fn count(&mut self) {
        let mut has = self.places.each_ref().map(|link| match link {
            Some(Link { has, is_whole: true, .. }) => *has,
            _ => 0,
        });
        has.sort_unstable_by(|a, b| b.cmp(a));
        self.committed = self.committed.max(has[NEEDED - 1]);
    }
}

impl Link {
    /// Posts entries, followed by the number of the last committed one. The error returns work
    /// requests that were not accepted.
    fn post(
        &mut self,
        batch: Vec<SharedBuf>,
        committed: u64,
    ) -> std::result::Result<(), PostError<SharedBuf>> {
        let committed = committed.to_ne_bytes(); // outlives the list
        let mut slots = SendSlots::<{ BATCH + 1 }>::new();
        let mut list = self.qp.send_list(&mut slots);
        for buf in batch {
            let at = self.log.slice(entry::offset(buf.id()) as u64, SLOT as u64);
            let at = at.expect("append has checked the room");
            list.push(wr::RdmaWrite::new(buf, at.write()))?;
        }
        let at = self.log.slice(0, 8).expect("a log has room for a number");
        list.push(wr::RdmaWrite::inline(&committed, at.write()))?;
        list.post()
    }
}
