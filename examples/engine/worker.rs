//! The worker of a device: one thread with a completion queue, an event channel and its share of
//! the queue pairs of all peers.
//!
//! A peer's queue pairs here take parts from one backlog, as they have room. If one of them fails,
//! the worker destroys all of them, fails the parts, and connects again after a while. This does
//! not affect other peers.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Sender, TryRecvError, channel};
use std::time::{Duration, Instant};
use std::{mem::replace, net::SocketAddr};

use anyhow::{Context as _, Result, anyhow, bail};
use proverbs::completion::CqHandle;
use proverbs::events::{Found, WaitFor, Waker, wait};
use proverbs::memory::{OpenBuf, OutOfBounds};
use proverbs::{cm::*, post::PostErrorKind, prelude::*, qp::Completed};

use crate::batch::{Operation, Part, Peer, Reason};
use crate::engine::{Notice, Settings};
use crate::{Region, Shared, service::Service, target::READS};

profile! { pub Transfers { entry: OpenBuf, signaling: Selective } }

/// Work requests of a list. The last one is signaled.
const LIST: usize = 8;

/// A command of the application's threads.
pub enum Command {
    Connect(SocketAddr),
    Copy(Peer, Vec<Part>),
}

/// A peer, as this device reaches it.
struct Link {
    at: SocketAddr,
    lanes: Vec<Lane>,
    backlog: VecDeque<Part>,
    /// Why it is not connected; none if it is, or if that has begun.
    down: Option<Reason>,
    /// When to connect again, or to give up an attempt.
    timer: Option<Instant>,
    backoff: Duration,
}

/// A queue pair, in a step to its connection.
enum Lane {
    Idle,
    Address(CmId<Tcp, ResolvingAddr, OnChannel>),
    Route(CmId<Tcp, ResolvingRoute, OnChannel>),
    Requested(Pending<Transfers>),
    /// Connected, with the peer's memory, and the parts in the order of posting. The queue pair is
    /// dropped before the parts, so no device accesses their memory when they end.
    Up(Connection<Transfers, OnChannel>, RemoteSlice<Shared>, VecDeque<Part>),
}

/// How long an attempt to connect may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The place of a lane: the number of its link, and its own.
type Place = (usize, usize);

pub struct Worker {
    settings: Settings,
    /// The number and the address of the device, and how many queue pairs each peer has here.
    place: (usize, SocketAddr, usize),
    events: EventChannel,
    cq: CqHandle<OpenBuf>,
    region: Region,
    notices: Sender<Notice>,
    links: Vec<Link>,
    by_qp: HashMap<u32, Place>,
    by_id: HashMap<IdKey, Place>,
    /// The link that posts first.
    turn: usize,
}

impl Worker {
    /// Starts the worker of the device that has the address `from`.
    pub fn start(
        settings: Settings,
        (device, from, lanes): (usize, SocketAddr, usize),
        events: EventChannel,
        register: &dyn Fn(&ProtectionDomain) -> Result<Region>,
        notices: Sender<Notice>,
    ) -> Result<(Sender<Command>, Service)> {
        // Binding finds the device. The id is not needed after that.
        let id = events.create_id::<Tcp>()?.bind_addr(from)?.on_device()?;
        let context = id.context()?;
        let mut channel = context.create_comp_channel()?;
        // Not a field, because completions borrow it.
        let mut queue = context.cq(settings.budget).shared_budget().channel(&channel).create()?;
        let (place, region, cq) = ((device, from, lanes), register(&id.pd()?)?, queue.handle());
        let (links, by_qp, by_id, turn) = (Vec::new(), HashMap::new(), HashMap::new(), 0);
        #[rustfmt::skip] // one line for each kind of field
        let mut worker = Worker {
            settings, place, events, cq, region, notices,
            links, by_qp, by_id, turn,
        };
        let (commands, received) = self::channel();
        let turn = move |waker: &Waker| {
            let timeout = worker.on_time();
            let cqs = &mut [&mut queue as _];
            let (cqs, cm) = (WaitFor::Cqs(&mut channel, cqs), WaitFor::Cm(&worker.events));
            let found = wait([cqs, cm, WaitFor::Wake(waker)], timeout)?;
            if let [_, Some(Found::Cm(event)), _] = found {
                worker.on_event(&event);
            }
            // At most 16 of them, so they do not starve the other sources.
            queue.poll()?.for_each(|completion| worker.on_completion(completion));
            let is_open = loop {
                match received.try_recv() {
                    Ok(Command::Connect(at)) => worker.add(at),
                    Ok(Command::Copy(peer, parts)) => worker.links[peer.0].backlog.extend(parts),
                    Err(error) => break error == TryRecvError::Empty,
                }
            };
            worker.post();
            Ok(is_open)
        };
        Ok((commands, Service::start(&format!("device {device}"), turn)?))
    }

    fn add(&mut self, at: SocketAddr) {
        let lanes = (0..self.place.2).map(|_| Lane::Idle).collect();
        let (backlog, backoff) = (VecDeque::new(), self.settings.backoff[0]);
        self.links.push(Link { at, lanes, backlog, down: None, timer: None, backoff });
        let begun = self.connect(self.links.len() - 1);
        self.check(self.links.len() - 1, begun);
    }

    /// Ends a link if a step of it failed.
    fn check(&mut self, peer: usize, result: Result<()>) {
        if let Err(error) = result {
            self.end(peer, Reason::Down(format!("{error:#}").into()));
        }
    }

    /// Handles the timers that have expired. Returns the time until the next one.
    fn on_time(&mut self) -> Option<Duration> {
        let now = Instant::now();
        for peer in 0..self.links.len() {
            if self.links[peer].timer.is_some_and(|timer| timer <= now) {
                let is_down = self.links[peer].down.is_some();
                let begun = is_down.then(|| self.connect(peer));
                self.check(peer, begun.unwrap_or_else(|| Err(anyhow!("no answer in time"))));
            }
        }
        let next = self.links.iter().filter_map(|link| link.timer).min();
        next.map(|next| next.saturating_duration_since(now))
    }

    /// Begins to connect all lanes of a link.
    fn connect(&mut self, peer: usize) -> Result<()> {
        let link = &mut self.links[peer];
        (link.down, link.timer) = (None, Some(Instant::now() + PATIENCE));
        for n in 0..self.place.2 {
            let id = self.events.create_id::<Tcp>()?.bind_addr(self.place.1)?;
            let id = id.resolve_addr(link.at, PATIENCE)?;
            self.by_id.insert(id.key(), (peer, n));
            link.lanes[n] = Lane::Address(id);
        }
        Ok(())
    }

    /// Advances the lane that an event names.
    fn on_event(&mut self, event: &Event) {
        let Some(&(peer, n)) = self.by_id.get(&event.id()) else { return };
        let lane = replace(&mut self.links[peer].lanes[n], Lane::Idle);
        let stepped = self.step((peer, n), lane, event);
        let stepped = stepped.map(|lane| self.links[peer].lanes[n] = lane);
        self.check(peer, stepped);
        let link = &mut self.links[peer];
        let is_up = link.lanes.iter().all(|lane| matches!(lane, Lane::Up(..)));
        if let (true, Some(_), Lane::Up(_, remote, _)) = (is_up, link.timer, &link.lanes[n]) {
            (link.timer, link.backoff) = (None, self.settings.backoff[0]);
            let told = (Peer(peer), self.place.0, Ok((remote.addr(), remote.len())));
            let _ = self.notices.send(told); // the application may have dropped the receiver
        }
    }

    fn step(&mut self, place: Place, lane: Lane, event: &Event) -> Result<Lane> {
        match lane {
            Lane::Idle => Ok(Lane::Idle),
            Lane::Address(id) => match id.advance(event) {
                Progress::Waiting(id) => Ok(Lane::Address(id)),
                Progress::Done(id) => Ok(Lane::Route(id.resolve_route(PATIENCE)?)),
                Progress::Failed(refused) => Err(refused.error.into()),
            },
            Lane::Route(id) => match id.advance(event) {
                Progress::Waiting(id) => Ok(Lane::Route(id)),
                Progress::Done(id) => {
                    let depth = Depth { send: self.settings.depth, recv: 0 };
                    let qp = id.create_qp::<Transfers>(&id.pd()?, &self.cq, &self.cq, depth)?;
                    let param =
                        ConnParam { initiator_depth: READS.try_into()?, ..ConnParam::default() };
                    Ok(Lane::Requested(id.connect(qp, &param)?))
                }
                Progress::Failed(refused) => Err(refused.error.into()),
            },
            Lane::Requested(pending) => match pending.advance(event) {
                Progress::Waiting(pending) => Ok(Lane::Requested(pending)),
                Progress::Done(connection) => {
                    let remote =
                        connection.private_data.first_chunk().and_then(RemoteSlice::from_bytes);
                    self.by_qp.insert(connection.qp.qp_num(), place);
                    Ok(Lane::Up(connection, remote.context("it is not a target")?, VecDeque::new()))
                }
                Progress::Failed(refused) => Err(refused.error.into()),
            },
            Lane::Up(connection, remote, posted) => match connection.advance(event) {
                Progress::Waiting(connection) => Ok(Lane::Up(connection, remote, posted)),
                // The queue pair is destroyed here.
                Progress::Done(_) | Progress::Failed(_) => {
                    self.links[place.0].backlog.extend(posted);
                    bail!("it has disconnected")
                }
            },
        }
    }

    /// Ends a link: its queue pairs are destroyed, its parts fail at the end of the turn, and a
    /// timer connects it again.
    fn end(&mut self, peer: usize, reason: Reason) {
        let link = &mut self.links[peer];
        for lane in &mut link.lanes {
            if let Lane::Up(connection, _, posted) = replace(lane, Lane::Idle) {
                drop(connection);
                link.backlog.extend(posted);
            }
        }
        self.by_qp.retain(|_, place| place.0 != peer);
        self.by_id.retain(|_, place| place.0 != peer);
        link.timer = Some(Instant::now() + link.backoff);
        link.backoff = (2 * link.backoff).min(self.settings.backoff[1]);
        link.down = Some(reason.clone());
        let _ = self.notices.send((Peer(peer), self.place.0, Err(reason)));
    }

    /// Ends the parts that a completion releases. The work requests before the first one that
    /// failed were done. Before a flushed one, there may be others that failed.
    fn on_completion(&mut self, completion: Completion<'_, OpenBuf>) {
        // Completions of destroyed queue pairs find no lane.
        let Some(&(peer, n)) = self.by_qp.get(&completion.qp_num()) else { return };
        let Lane::Up(connection, _, posted) = &mut self.links[peer].lanes[n] else { return };
        let Ok(Completed { status, released }) = connection.qp.complete(completion) else { return };
        let count = released.count();
        for (n, part) in posted.drain(..count).enumerate() {
            let failed = status.err().filter(|e| e.status == WcStatus::WrFlush || n + 1 == count);
            part.finish(failed.map_or(Ok(()), |error| Err(Reason::Status(error))));
        }
        if let Err(error) = status {
            self.end(peer, Reason::Status(error));
        }
    }

    /// Posts the backlogs of the links in turn, until the completion queue has no room.
    /// Completions make room, and each turn posts again.
    fn post(&mut self) {
        for _ in 0..self.links.len() {
            self.turn %= self.links.len();
            match self.post_link(self.turn) {
                Ok(()) => {}
                Err(PostErrorKind::CqFull { .. }) => break,
                Err(kind) => self.end(self.turn, Reason::Down(format!("{kind:?}").into())),
            }
            self.turn += 1;
        }
        for link in &mut self.links {
            if let Some(reason) = &link.down {
                link.backlog.drain(..).for_each(|part| part.finish(Err(reason.clone())));
            }
        }
    }

    /// Posts the backlog of a link, until its queue pairs are full.
    fn post_link(&mut self, peer: usize) -> Result<(), PostErrorKind> {
        let Link { lanes, backlog, timer, .. } = &mut self.links[peer];
        // Until all lanes are up, it has a timer.
        for lane in lanes.iter_mut().filter(|_| timer.is_none()) {
            let Lane::Up(connection, remote, posted) = lane else { continue };
            // The whole operation must be inside, so that no part of a wrong one is done.
            let place = |Part { op, from, len, .. }: &Part| -> Result<_, OutOfBounds> {
                let there = remote.slice(op.remote.wrapping_sub(remote.addr()), op.len as u64)?;
                let mut here = self.region.piece(op.local.saturating_add(op.len), 0)?; // its end
                here.set_range(op.local + from, *len)?;
                Ok((here, there.slice(*from as u64, *len as u64)?))
            };
            let mut full = None;
            while full.is_none() && !backlog.is_empty() {
                let mut slots = SendSlots::<LIST>::new();
                let mut list = connection.qp.send_list(&mut slots);
                while list.len() < LIST && full.is_none() {
                    let Some(part) = backlog.pop_front() else { break };
                    let pushed = match place(&part) {
                        Err(error) => {
                            part.finish(Err(Reason::OutOfBounds(error)));
                            continue;
                        }
                        Ok((here, there)) => match part.op.operation {
                            Operation::Write => list.push(wr::RdmaWrite::new(here, there.write())),
                            Operation::Read => list.push(wr::RdmaRead::new(here, there.read())),
                        },
                    };
                    full = pushed.err().map(|error| error.kind());
                    match full {
                        None => posted.push_back(part),
                        Some(_) => backlog.push_front(part),
                    }
                }
                // If this fails, the device may have some of them. All fail with the link.
                list.post().map_err(|error| error.kind())?;
            }
            if let Some(kind) = full.filter(|kind| !matches!(kind, PostErrorKind::QueueFull { .. }))
            {
                return Err(kind);
            }
        }
        Ok(())
    }
}
