//! The target: one thread, one shared receive queue and one completion queue for all connections.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use proverbs::cm::{
    AcceptParam, Accepted, CmId, Connection, Event, EventChannel, Listening, NotAccepted,
    OnChannel, Progress, RejectData, Request, Tcp,
};
use proverbs::completion::{CompletionChannel, Direction, WcOpcode};
use proverbs::events::{Found, WaitFor, Waker, wait};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::Max;

use crate::slab::Slab;
use crate::wire::{Answer, BLOCK, Put, REJECTION, Status, WINDOW, sum};

profile! { pub Serving { receive: SharedRq } }

/// Receives of all connections together.
const RECEIVES: usize = 1024;
/// READs and answers of all connections together. Each queue pair alone could post 16.
const SENDS: u32 = 512;
/// READs of all connections together, each with a buffer of a block.
const READS: usize = 128;
/// Completions of a turn. The next turn also looks at the other sources.
const TURN: usize = 256;
/// Connection requests that wait for the poller.
const BACKLOG: u32 = 128;

/// A connection.
pub struct Peer {
    /// None only while an event is processed.
    stage: Option<Stage>,
    /// Requests whose answer is not posted yet.
    unanswered: usize,
    /// The requests whose READ is posted. READs of one queue pair complete in order.
    reading: VecDeque<Put>,
    /// Requests that arrived before the event that confirms the connection.
    early: Vec<Put>,
}

enum Stage {
    Accepted(Accepted<Serving>),
    Up(Connection<Serving, OnChannel>),
}

/// Work for which there was no room.
#[derive(Clone, Copy)]
enum Step {
    Read(Put),
    Answer(Answer),
}

/// What the target did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: u64,
    /// Connections that were rejected because there was no room.
    pub rejected: u64,
    /// Connections that the client ended.
    pub left: u64,
    /// Connections that broke, or that the target ended because of a fault of the client.
    pub broken: u64,
    pub stored: u64,
    /// Requests that were answered with another status.
    pub refused: u64,
}

pub struct Target {
    /// None while the target ends.
    listening: Option<CmId<Tcp, Listening, OnChannel>>,
    events: EventChannel,
    /// Ends the target in order: it answers the requests that have arrived, and disconnects.
    pub waker: Arc<Waker>,
    pd: ProtectionDomain,
    channel: CompletionChannel,
    pub peers: Slab<Peer>,
    /// Queue pairs of connections that have ended, until their last completion is polled. Their
    /// numbers cannot come back before that.
    ended: Vec<QueuePair<Rc, state::Err, Serving>>,
    srq: SharedReceiveQueue<Rc>,
    cq: CompletionQueue,
    buffers: Pool,
    /// In the order of arrival.
    waiting: VecDeque<(u32, Step)>,
    /// The blocks, one after the other.
    pub store: Vec<u8>,
    pub counts: Counts,
}

impl Target {
    /// Listens on an address of a device, for at most `room` connections at once.
    pub fn new(events: EventChannel, at: SocketAddr, room: usize, blocks: usize) -> Result<Target> {
        let id = events.create_id::<Tcp>()?.bind_addr(at)?.on_device()?;
        let (context, pd) = (id.context()?, id.pd()?);
        let receives = pd.create_pool(RECEIVES, Put::WIRE_LEN)?;
        let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&receives)?;
        while let Some(buf) = receives.take() {
            srq.post_srq_recv(wr::Recv::new(buf))?;
        }
        let channel = context.create_comp_channel()?;
        let cq = context.cq(SENDS).receives(RECEIVES as u32).shared_budget();
        let cq = cq.channel(&channel).create()?;
        Ok(Target {
            listening: Some(id.listen(BACKLOG)?),
            events,
            waker: Arc::new(Waker::new()?),
            channel,
            peers: Slab::with_room(room),
            ended: Vec::new(),
            srq,
            cq,
            buffers: pd.create_pool(READS, BLOCK)?,
            pd,
            waiting: VecDeque::new(),
            store: vec![0; blocks * BLOCK],
            counts: Counts::default(),
        })
    }

    /// Waits for events and completions, at most `timeout`, and processes them. Returns false once
    /// the target has ended.
    pub fn turn(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let cqs = &mut [&mut self.cq as _];
        let sources = [
            WaitFor::Cqs(&mut self.channel, cqs),
            WaitFor::Cm(&self.events),
            WaitFor::Wake(&self.waker),
        ];
        let [_, event, wake] = wait(sources, timeout)?;
        if let Some(Found::Cm(event)) = event {
            match &self.listening {
                Some(listening) if listening.key() == event.id() => {
                    let stopped = |event| anyhow!("the target cannot listen any more: {event:?}");
                    let request = listening.request(event).map_err(stopped)?;
                    self.admit(request);
                }
                _ => self.advance(&event),
            }
        }
        if wake.is_some() {
            self.listening = None;
        }
        for _ in 0..TURN {
            let Some(completion) = self.cq.poll_one()? else {
                // In the error state no message arrives, and the queue has no earlier ones.
                self.ended.retain(|qp| qp.sends_outstanding() > 0);
                break;
            };
            // Every send is signaled, so every outcome can be detached.
            let Ok(outcome) = completion.outcome().detach() else { continue };
            self.on_completion(outcome)?;
        }
        self.go_on();
        // Every request was answered, and every answer has arrived.
        let is_quiet = self.peers.iter().all(|(_, peer)| match &peer.stage {
            Some(Stage::Up(up)) => peer.unanswered == 0 && up.qp.sends_outstanding() == 0,
            _ => true,
        });
        if self.listening.is_some() || !is_quiet {
            return Ok(true);
        }
        let qp_nums: Vec<u32> = self.peers.iter().map(|(qp_num, _)| qp_num).collect();
        for qp_num in qp_nums {
            self.end(qp_num);
        }
        Ok(false)
    }

    /// Accepts a connection, or rejects it if there is no room.
    fn admit(&mut self, request: Request<Tcp, OnChannel>) {
        let room = self.peers.room();
        if self.peers.len() == room {
            self.counts.rejected += 1;
            let why = format!("{REJECTION}all {room} connections of the target are in use");
            // Rejecting fails if the client is gone.
            let _ = RejectData::new(why.as_bytes()).map(|why| request.reject(&why).ok());
            return;
        }
        let depth = Depth::on_srq(2 * WINDOW as u32, &self.srq);
        // Both fail if the client is gone. A dropped request is rejected.
        let Ok(qp) = request.id.create_qp::<Serving>(&self.pd, &self.cq, &self.cq, depth) else {
            return;
        };
        let (qp_num, key) = (qp.qp_num(), request.id.key());
        let accepted = match request.accept(qp, &AcceptParam::default()) {
            Ok(accepted) => accepted,
            Err(refused) => return self.given_up(refused.into_object()),
        };
        self.counts.accepted += 1;
        let stage = Some(Stage::Accepted(accepted));
        let peer = Peer { stage, unanswered: 0, reading: VecDeque::new(), early: Vec::new() };
        self.peers.insert(qp_num, key, peer);
    }

    /// Processes an event of a connection. Events of connections that ended earlier are ignored.
    fn advance(&mut self, event: &Event) {
        let Some((qp_num, peer)) = self.peers.find(event.id()) else { return };
        match peer.stage.take() {
            Some(Stage::Accepted(accepted)) => match accepted.advance(event) {
                Progress::Waiting(accepted) => peer.stage = Some(Stage::Accepted(accepted)),
                Progress::Failed(refused) => {
                    self.given_up(refused.into_object());
                    self.broken(qp_num);
                }
                Progress::Done(up) => {
                    peer.stage = Some(Stage::Up(up));
                    for put in std::mem::take(&mut peer.early) {
                        self.start(qp_num, put);
                    }
                }
            },
            Some(Stage::Up(up)) => match up.advance(event) {
                Progress::Waiting(up) => peer.stage = Some(Stage::Up(up)),
                Progress::Done(ended) => {
                    self.counts.left += 1;
                    self.ended.push(ended.qp);
                    self.end(qp_num);
                }
                Progress::Failed(refused) => {
                    peer.stage = Some(Stage::Up(refused.into_object()));
                    self.broken(qp_num);
                }
            },
            None => {}
        }
    }

    /// Ends a connection because of a fault. Later completions of it are ignored.
    fn broken(&mut self, qp_num: u32) {
        self.counts.broken += u64::from(self.peers.get(qp_num).is_some());
        self.end(qp_num);
    }

    /// Ends a connection. Its last completions find no connection.
    fn end(&mut self, qp_num: u32) {
        match self.peers.remove(qp_num).and_then(|peer| peer.stage) {
            // It fails if the device was removed.
            Some(Stage::Up(up)) => self.ended.extend(up.disconnect().ok().map(|ended| ended.qp)),
            Some(Stage::Accepted(accepted)) => self.given_up(accepted.cancel()),
            None => {}
        }
    }

    fn given_up(&mut self, attempt: NotAccepted<Serving, OnChannel>) {
        if let NotAccepted::Failed { qp, .. } = attempt {
            self.ended.push(qp);
        }
    }

    fn on_completion(&mut self, outcome: Outcome<'static, Buf>) -> Result<()> {
        let received = match outcome {
            Outcome::Received(message) => {
                self.on_message(message.qp_num, Put::from_wire(message.data()));
                message.entry
            }
            Outcome::Sent(sent) if sent.opcode == WcOpcode::RdmaRead => {
                self.on_read(sent.qp_num, sent.entry);
                None
            }
            Outcome::Failed(failed) => {
                self.broken(failed.qp_num);
                failed.entry.filter(|_| failed.direction == Direction::Receive)
            }
            _ => None, // an answer has arrived
        };
        if let Some(buf) = received {
            self.srq.post_srq_recv(wr::Recv::new(buf))?;
        }
        Ok(())
    }

    /// Processes a message of a client. One that breaks the protocol ends the connection.
    fn on_message(&mut self, qp_num: u32, put: Option<Put>) {
        // After the end has begun, no request is answered.
        let is_open = self.listening.is_some();
        let Some(peer) = self.peers.get(qp_num).filter(|_| is_open) else { return };
        let Some(put) = put.filter(|_| peer.unanswered < WINDOW) else {
            return self.broken(qp_num);
        };
        peer.unanswered += 1;
        if let Some(Stage::Accepted(accepted)) = &peer.stage {
            // The confirmation may be lost. If it is not, this fails, and the event comes.
            let _ = accepted.id().notify_established();
            return peer.early.push(put);
        }
        self.start(qp_num, put);
    }

    /// Begins to serve a request, or answers why it cannot be served.
    fn start(&mut self, qp_num: u32, put: Put) {
        if put.block as usize >= self.store.len() / BLOCK {
            self.answer(qp_num, put.tag, Status::NoBlock);
        } else if !(1..=BLOCK as u64).contains(&put.from.len()) {
            self.answer(qp_num, put.tag, Status::WrongLength);
        } else {
            self.waiting.push_back((qp_num, Step::Read(put)));
        }
    }

    /// Checks and stores the bytes that were read.
    fn on_read(&mut self, qp_num: u32, buf: Option<Buf>) {
        let oldest = self.peers.get(qp_num).and_then(|peer| peer.reading.pop_front());
        let Some(put) = oldest else { return };
        let len = put.from.len() as usize;
        let bytes = buf.as_deref().and_then(|buf| buf.get(..len));
        let status = match bytes.filter(|bytes| sum(bytes) == put.sum) {
            Some(bytes) => {
                self.store[put.block as usize * BLOCK..][..len].copy_from_slice(bytes);
                Status::Stored
            }
            None => Status::WrongSum,
        };
        self.answer(qp_num, put.tag, status);
    }

    fn answer(&mut self, qp_num: u32, tag: u32, status: Status) {
        match status {
            Status::Stored => self.counts.stored += 1,
            _ => self.counts.refused += 1,
        }
        self.waiting.push_back((qp_num, Step::Answer(Answer { tag, status })));
    }

    /// Posts the work that waits, until there is no room. What is outstanding then makes room.
    fn go_on(&mut self) {
        while let Some(&(qp_num, step)) = self.waiting.front() {
            let peer = self.peers.get(qp_num);
            if let Some(Peer { stage: Some(Stage::Up(up)), reading, unanswered, .. }) = peer {
                let posted = match step {
                    Step::Read(put) => {
                        let Some(mut buf) = self.buffers.take() else { return };
                        buf.set_len(put.from.len() as usize);
                        let read = up.qp.post_send(wr::RdmaRead::new(buf, put.from.read()));
                        read.map(|()| reading.push_back(put))
                    }
                    Step::Answer(answer) => {
                        let sent = up.qp.post_send(wr::Send::inline(&answer.to_wire()));
                        sent.map(|()| *unanswered -= 1)
                    }
                };
                match posted.map_err(|error| error.kind()) {
                    Ok(()) => {}
                    Err(PostErrorKind::CqFull { .. }) => return,
                    // A client that keeps to its window never fills the send queue.
                    Err(_) => self.broken(qp_num),
                }
            }
            self.waiting.pop_front();
        }
    }
}
