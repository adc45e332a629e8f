//! A client: it sends where its bytes are, and the target reads them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use proverbs::cm::{
    ConnParam, Connection, Event, EventChannel, OnChannel, Pending, Progress, Tcp, Waits,
};
use proverbs::prelude::*;

use crate::Result;
use crate::patience::patience;
use crate::wire::{Answer, BLOCK, Put, Rejection, Status, WINDOW, sum};

/// A connection that was requested, and the objects that it needs.
pub struct Connecting {
    pending: Pending,
    rest: Rest,
}

struct Rest {
    events: EventChannel,
    cq: CompletionQueue,
    /// The bytes that the target reads: a block for each request of the window.
    region: MemoryRegion<RemoteRead>,
}

pub struct Client {
    /// None once the target has disconnected.
    connection: Option<Connection<DefaultProfile, OnChannel>>,
    rest: Rest,
    next_tag: u32,
}

/// Processes events of the channel until the step of an id is done.
fn finish<W: Waits>(
    events: &EventChannel,
    mut step: W,
    advance: impl Fn(W, &Event) -> Progress<W::Done, W, W::Failed>,
) -> Result<W::Done> {
    loop {
        let event = events.wait_timeout(by_hand())?.ok_or("the target does not answer")?;
        match advance(step, &event) {
            Progress::Done(done) => return Ok(done),
            Progress::Waiting(waiting) => step = waiting,
            Progress::Failed(refused) => return Err(reason(refused.error)),
        }
    }
}

fn by_hand() -> Duration {
    patience(Duration::from_secs(10))
}

/// A rejection in the target's own words, if it sent any.
fn reason(error: proverbs::Error) -> Box<dyn std::error::Error> {
    let rejection = match error.kind() {
        ErrorKind::Rejected { private_data, .. } => Rejection::from_wire(private_data),
        _ => None,
    };
    rejection.map_or_else(|| error.into(), Into::into)
}

impl Connecting {
    /// Requests a connection. On a channel that several clients share, each must be connected
    /// before the next one begins.
    pub fn new(events: &EventChannel, from: Option<SocketAddr>, to: SocketAddr) -> Result<Self> {
        let id = events.create_id::<Tcp>()?;
        let id = match from {
            Some(from) => id.bind_addr(from)?.resolve_addr(to, by_hand())?,
            None => id.resolve_addr(to, by_hand())?,
        };
        let id = finish(events, id, |id, event| id.advance(event))?.resolve_route(by_hand())?;
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
        let rest = Rest { events: events.clone(), cq, region };
        Ok(Connecting { pending: id.connect(qp, &ConnParam::default())?, rest })
    }

    /// Waits for the target's answer.
    pub fn finish(self) -> Result<Client> {
        let connection = finish(&self.rest.events, self.pending, Pending::advance)?;
        Ok(Client { connection: Some(connection), rest: self.rest, next_tag: 0 })
    }
}

impl Client {
    /// Stores the bytes in a block, and waits for the answer.
    pub fn put(&mut self, block: u32, bytes: &[u8]) -> Result<Status> {
        let tag = self.start(block, bytes)?;
        let answer = self.answer()?;
        if answer.tag != tag {
            return Err(format!("answer {} to request {tag}", answer.tag).into());
        }
        Ok(answer.status)
    }

    /// Requests a PUT, and returns its tag. At most [`WINDOW`] may be unanswered.
    pub fn start(&mut self, block: u32, bytes: &[u8]) -> Result<u32> {
        let place = self.next_tag as usize % WINDOW * BLOCK;
        let (offset, len) = (place as u64, bytes.len() as u64);
        self.rest.region.write_at(place, bytes)?;
        let from = self.rest.region.remote().slice(offset, len)?;
        self.send(Put { tag: self.next_tag, block, sum: sum(bytes), from })
    }

    /// Sends a request as it is. Tests also send wrong ones.
    pub fn send(&mut self, put: Put) -> Result<u32> {
        self.send_bytes(&put.to_wire())?;
        self.next_tag = put.tag.wrapping_add(1);
        Ok(put.tag)
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let connection = self.connection.as_mut().ok_or("the target has disconnected")?;
        Ok(connection.qp.post_send(wr::Send::inline_slice(bytes))?)
    }

    /// Waits for the next answer. Fails if the target disconnects.
    pub fn answer(&mut self) -> Result<Answer> {
        let end = Instant::now() + by_hand();
        while Instant::now() < end {
            if let Some(answer) = self.look()? {
                return Ok(answer);
            }
            std::thread::yield_now();
        }
        Err("the target does not answer".into())
    }

    /// Returns an answer if one has arrived.
    pub fn look(&mut self) -> Result<Option<Answer>> {
        let Rest { cq, events, .. } = &mut self.rest;
        while let Some(completion) = cq.poll_one()? {
            let message = match completion.outcome() {
                Outcome::Received(message) => message,
                Outcome::Failed(failed) => return Err(failed.error.into()),
                _ => continue, // a request has arrived
            };
            let answer = Answer::from_wire(message.data()).ok_or("that is no answer")?;
            if let (Some(connection), Some(buf)) = (&mut self.connection, message.entry) {
                connection.qp.post_recv(wr::Recv::new(buf))?;
            }
            return Ok(Some(answer));
        }
        let Some(event) = events.try_event()? else { return Ok(None) };
        let connection = self.connection.take().ok_or("the target has disconnected")?;
        match connection.advance(&event) {
            Progress::Waiting(connection) => self.connection = Some(connection),
            Progress::Done(_) => return Err("the target has disconnected".into()),
            Progress::Failed(refused) => return Err(refused.error.into()),
        }
        Ok(None)
    }

    /// The memory that the target may read, for requests that a test makes itself.
    #[cfg(test)]
    pub fn remote(&self) -> RemoteSlice<RemoteRead> {
        self.rest.region.remote()
    }

    /// Disconnects.
    pub fn leave(self) -> Result<()> {
        if let Some(connection) = self.connection {
            connection.disconnect()?;
        }
        Ok(())
    }
}
