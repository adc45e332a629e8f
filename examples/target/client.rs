//! A client: it sends where its bytes are, and the target reads them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use proverbs::cm::{
    ConnParam, Connection, Event, EventChannel, OnChannel, Pending, Progress, Tcp, Waits,
};
use proverbs::prelude::*;

use crate::wire::{Answer, BLOCK, Put, REJECTION, WINDOW, sum};

pub struct Client {
    events: EventChannel,
    pending: Option<Pending>,
    /// None before the target has accepted, and once it has disconnected.
    connection: Option<Connection<DefaultProfile, OnChannel>>,
    cq: CompletionQueue,
    /// The bytes that the target reads: a block for each request of the window.
    pub region: MemoryRegion<RemoteRead>,
    next_tag: u32,
}

/// Processes events of the channel until the step of an id is done.
fn finish<W: Waits>(
    events: &EventChannel,
    mut step: W,
    advance: impl Fn(W, &Event) -> Progress<W::Done, W, W::Failed>,
) -> Result<W::Done> {
    loop {
        let event = events.wait_timeout(PATIENCE)?.context("the target does not answer")?;
        match advance(step, &event) {
            Progress::Done(done) => return Ok(done),
            Progress::Waiting(waiting) => step = waiting,
            Progress::Failed(refused) => return Err(reason(refused.error)),
        }
    }
}

/// How long a client waits for the target.
const PATIENCE: Duration = Duration::from_secs(60);

/// A rejection in the target's own words, if it sent any.
fn reason(error: proverbs::Error) -> anyhow::Error {
    if let ErrorKind::Rejected { private_data, .. } = error.kind() {
        let words = String::from_utf8_lossy(private_data);
        // Private data may be padded with zeroes.
        if let Some(why) = words.trim_end_matches('\0').strip_prefix(REJECTION) {
            return anyhow!("{why}");
        }
    }
    error.into()
}

impl Client {
    /// Requests a connection. On a channel that several clients share, each must be connected
    /// before the next one begins.
    pub fn new(events: &EventChannel, from: Option<SocketAddr>, to: SocketAddr) -> Result<Client> {
        let id = events.create_id::<Tcp>()?;
        let id = match from {
            Some(from) => id.bind_addr(from)?.resolve_addr(to, PATIENCE)?,
            None => id.resolve_addr(to, PATIENCE)?,
        };
        let id = finish(events, id, |id, event| id.advance(event))?.resolve_route(PATIENCE)?;
        let id = finish(events, id, |id, event| id.advance(event))?;
        let (context, pd) = (id.context()?, id.pd()?);
        let depth = Depth { send: WINDOW as u32, recv: WINDOW as u32 };
        let cq = context.cq(0).queue_pairs(1, depth).create()?;
        let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth)?;
        let answers = pd.create_pool(WINDOW, Answer::WIRE_LEN)?;
        while let Some(buf) = answers.take() {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        let region = pd.register(WINDOW * BLOCK)?;
        let pending = Some(id.connect(qp, &ConnParam::default())?);
        Ok(Client { events: events.clone(), pending, connection: None, cq, region, next_tag: 0 })
    }

    /// Waits for the target's answer to the request for a connection.
    pub fn finish(mut self) -> Result<Client> {
        let pending = self.pending.take().context("the client is already connected")?;
        self.connection = Some(finish(&self.events, pending, Pending::advance)?);
        Ok(self)
    }

    /// Requests a PUT, and returns its tag. At most [`WINDOW`] may be unanswered.
    pub fn start(&mut self, block: u32, bytes: &[u8]) -> Result<u32> {
        let tag = self.next_tag;
        let place = tag as usize % WINDOW * BLOCK;
        self.region.write_at(place, bytes)?;
        let from = self.region.remote().slice(place as u64, bytes.len() as u64)?;
        self.send(&Put { tag, block, sum: sum(bytes), from }.to_wire())?;
        self.next_tag = tag.wrapping_add(1);
        Ok(tag)
    }

    /// Sends a message as it is. Tests also send wrong ones.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let connection = self.connection.as_mut().context("the target has disconnected")?;
        Ok(connection.qp.post_send(wr::Send::inline_slice(bytes))?)
    }

    /// Waits for the next answer. Fails if the target disconnects.
    pub fn answer(&mut self) -> Result<Answer> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(answer) = self.look()? {
                return Ok(answer);
            }
            std::thread::yield_now();
        }
        bail!("the target does not answer")
    }

    /// Returns an answer if one has arrived.
    pub fn look(&mut self) -> Result<Option<Answer>> {
        while let Some(completion) = self.cq.poll_one()? {
            let message = match completion.outcome() {
                Outcome::Received(message) => message,
                Outcome::Failed(failed) => return Err(failed.error.into()),
                _ => continue, // a request has arrived
            };
            let answer =
                Answer::from_wire(message.data()).context("the target sent an invalid answer")?;
            if let (Some(connection), Some(buf)) = (&mut self.connection, message.entry) {
                connection.qp.post_recv(wr::Recv::new(buf))?;
            }
            return Ok(Some(answer));
        }
        let Some(event) = self.events.try_event()? else { return Ok(None) };
        let connection = self.connection.take().context("the target has disconnected")?;
        match connection.advance(&event) {
            Progress::Waiting(connection) => self.connection = Some(connection),
            Progress::Done(_) => bail!("the target has disconnected"),
            Progress::Failed(refused) => return Err(refused.error.into()),
        }
        Ok(None)
    }

    /// Disconnects.
    pub fn leave(self) -> Result<()> {
        self.connection.map(Connection::disconnect).transpose()?;
        Ok(())
    }
}
