//! A world: devices, queues and buffers, the model, and the steps that change both.

use std::collections::{BTreeMap, BTreeSet};

use proverbs::bounded::{RnrRetries, RnrRetry, Timeout};
use proverbs::device::AhIndex;
use proverbs::loopback::{Fabric, Fault, Injected};
use proverbs::prelude::*;
use proverbs::transport::Transport;

use crate::books::*;
use crate::describe::PIECE;
use crate::program::*;
use crate::support::{Device, Wish};
use crate::wire::*;

/// An unknown number of completions.
pub const UNKNOWN: usize = usize::MAX;

pub const CAPACITY: usize = 192;
pub const REGION: usize = 512;
pub const INLINE: usize = 16;

/// The result of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub steps: u64,
    pub completions: u64,
    pub bytes: u64,
    /// Messages that were acknowledged to their sender and never arrived; by design 0 on RC.
    pub lost_unreliable: u64,
    pub reclaimed: u64,
    pub refused: u64,
    /// Receives that failed because a message was longer.
    pub short: u64,
    /// Queue pairs that were forgotten.
    pub forgotten: u64,
}

pub struct Qp<T: Transport, P: Profile> {
    pub any: Any<T, P>,
    pub life: u32,
    pub qpn: u32,
    pub send_cq: usize,
    pub recv_cq: usize,
    pub way: Option<AhIndex>,
    /// The number that it was last connected to.
    pub peer: u32,
    /// A post had an unknown outcome: of sends, of receives.
    pub poisoned: (bool, bool),
    /// A drain was its last operation.
    pub is_drained: bool,
}

pub struct World<T: Wire<P>, P: Kind> {
    pub config: Config,
    pub wish: Wish,
    pub held: Vec<WithId>,
    pub qps: Vec<Qp<T, P>>,
    pub srq: AnySrq,
    pub srq_poisoned: bool,
    pub srq_posted: Vec<Wr>,
    /// The completion queues on which it has bookings.
    pub srq_books_on: BTreeSet<usize>,
    pub cqs: Vec<Cq>,
    /// The largest capacity that each ever had.
    pub largest: Vec<u32>,
    /// The completions that an earlier poll of each left.
    pub left: Vec<usize>,
    pub channel: Option<CompletionChannel>,
    pub regions: Vec<(MemoryRegion<RemoteAll>, Region)>,
    /// The region whose pieces are sent.
    pub open: MemoryRegion<RemoteRead>,
    pub pool: Pool<u32>,
    pub pd: ProtectionDomain,
    pub dev: Device,
    pub fabric: Fabric,
    // The model.
    pub places: Places,
    pub lives: BTreeMap<u32, Life>,
    pub next_life: u32,
    pub streams: BTreeMap<u32, Stream>,
    pub next: u64,
    /// A completion queue broke, and the model's knowledge with it.
    pub over: bool,
    pub tally: Tally,
}

impl<T: Wire<P>, P: Kind> World<T, P> {
    pub fn new(config: &Config) -> World<T, P> {
        let fabric = Fabric::with(config.personality);
        let dev = Device::loopback(&fabric);
        let pd = dev.ctx.alloc_pd().expect("a domain");
        let count = config.buffers;
        let pool = pd.pool(CAPACITY).contexts(|i| i as u32).create(count).expect("a pool");
        // In every other world, since a forgotten channel keeps its descriptor.
        let has_channel = config.script_seed % 4 < 2;
        let channel = has_channel.then(|| dev.ctx.create_comp_channel().expect("a channel"));
        let cq = |at| {
            let spare = config.spare.map(|spare| spare + Self::booked_at_first(config, at).max(1));
            let capacity = spare.unwrap_or(4000);
            let builder = dev.ctx.cq(capacity);
            let builder = if config.shares { builder.shared_budget() } else { builder };
            let made = match &channel {
                Some(channel) => builder.channel(channel).create(),
                None => builder.create(),
            };
            made.expect("a queue")
        };
        let cqs: Vec<_> = (0..config.cqs).map(cq).collect();
        let rnr_retry = match config.rnr_retry {
            None => RnrRetry::Infinite,
            Some(times) => RnrRetry::Times(RnrRetries::new(times).expect("at most 6")),
        };
        let timeout = if config.timeout { Timeout::MS_67 } else { Timeout::Infinite };
        let wish = Wish { rnr_retry, timeout, retry_cnt: 1, ..Wish::new() };
        let srq = T::create_srq(&pd, &pool);
        let regions = (0..config.pairs * 2)
            .map(|_| (pd.register(REGION).expect("a region"), Region::new(REGION)))
            .collect();
        let open = pd.register(PIECES * PIECE).expect("a region");
        let mut world = World {
            config: config.clone(),
            wish,
            held: Vec::new(),
            qps: Vec::new(),
            srq,
            srq_poisoned: false,
            srq_posted: Vec::new(),
            srq_books_on: BTreeSet::new(),
            left: vec![0; cqs.len()],
            largest: cqs.iter().map(|cq| cq.capacity()).collect(),
            cqs,
            channel,
            regions,
            open,
            pool,
            pd,
            dev,
            fabric,
            places: Places::new(count),
            lives: BTreeMap::new(),
            next_life: 1,
            streams: BTreeMap::new(),
            next: 1,
            over: false,
            tally: Tally::default(),
        };
        for slot in 0..config.pairs * 2 {
            let (send_cq, recv_cq) = Self::cqs_of(config, slot);
            world.qps.push(Qp {
                any: Any::Gone,
                life: 0,
                qpn: 0,
                send_cq,
                recv_cq,
                way: None,
                peer: 0,
                poisoned: (false, false),
                is_drained: false,
            });
            world.create(slot).expect("there is room");
        }
        for slot in 0..config.pairs * 2 {
            world.bring_up(slot);
        }
        world.fabric.inject(config.script::<T>());
        world
    }

    /// The completion queues of the sends and the receives of a queue pair.
    fn cqs_of(config: &Config, slot: usize) -> (usize, usize) {
        (slot % config.cqs, (slot / 2 + 1) % config.cqs)
    }

    /// The bookings of all queue pairs on a completion queue.
    fn booked_at_first(config: &Config, at: usize) -> u32 {
        let depth = match config.shares {
            // Fewer entries than the depths.
            true => Depth { send: 0, recv: 0 },
            false => Self::depth(config),
        };
        let (mut booked, mut receives) = (0, false);
        for slot in 0..config.pairs * 2 {
            let (send_cq, recv_cq) = Self::cqs_of(config, slot);
            booked += if send_cq == at { depth.send + 1 } else { 0 };
            booked += if recv_cq == at { depth.recv } else { 0 };
            receives |= recv_cq == at;
        }
        if P::SHARED && receives { booked + config.buffers as u32 } else { booked }
    }

    pub fn depth(config: &Config) -> Depth {
        Depth { send: config.send_depth, recv: if P::SHARED { 0 } else { config.recv_depth } }
    }

    pub fn step(&mut self, step: &Step) -> Check {
        let qp = |qp: u8| usize::from(qp) % self.qps.len();
        let cq = |cq: u8| usize::from(cq) % self.cqs.len();
        self.tally.steps += 1;
        match step {
            Step::Send { qp: at, form, work } => self.send(qp(*at), *form, work)?,
            Step::Receive { qp: at, form, into } => self.receive(qp(*at), *form, into)?,
            Step::Poll { cq: at, most, then } => {
                self.poll(cq(*at), usize::from(*most) + 1, *then)?;
            }
            Step::Arm { cq: at } => {
                let at = cq(*at);
                self.wait(at)?;
            }
            Step::Advance { qp: at } => self.advance(qp(*at)),
            Step::ToError { qp: at } => self.fail(qp(*at)),
            Step::Reset { qp: at } => {
                let at = qp(*at);
                self.reset(at)?;
                self.settle_if_bufferless()?;
            }
            Step::Stop { qp: at } => {
                let at = qp(*at);
                let any = match self.qps[at].any.take() {
                    Any::Rts(qp) => T::stop(qp),
                    other => other,
                };
                self.qps[at].any = any;
            }
            Step::Resume { qp: at } => {
                let at = qp(*at);
                let any = self.qps[at].any.take();
                self.qps[at].any = T::resume(any);
            }
            Step::Reconnect { qp: at } => self.reconnect(qp(*at))?,
            Step::Drain { qp: at } => self.drain(qp(*at))?,
            Step::Destroy { qp: at, politely } => {
                let at = qp(*at);
                self.destroy(at, *politely)?;
                self.settle_if_bufferless()?;
            }
            Step::Create { qp: at } => {
                let at = qp(*at);
                if matches!(self.qps[at].any, Any::Gone) {
                    self.create(at)?;
                }
            }
            Step::Forget { qp: at } => self.forget(qp(*at)),
            Step::Reclaim { cq: at } => self.reclaim(cq(*at))?,
            Step::Resize { cq: at, by } => self.resize(cq(*at), *by)?,
            Step::Fail { qp: at } => {
                let at = qp(*at);
                if matches!(self.qps[at].any, Any::Rts(_) | Any::Draining(_) | Any::Sqd(_)) {
                    self.fabric.fail(self.qps[at].qpn);
                }
            }
            Step::LetGo => self.let_go()?,
        }
        if self.over { Ok(()) } else { self.check() }
    }

    pub fn life(&mut self, slot: usize) -> &mut Life {
        let life = self.qps[slot].life;
        self.lives.get_mut(&life).expect("a queue pair's life is known")
    }

    pub fn injected(&self) -> Injected {
        self.fabric.injected()
    }

    pub fn may(&self) -> Unreliable {
        Unreliable {
            doubles: self.config.has(|fault| fault == Fault::Duplicate),
            overtakes: self.config.has(|fault| matches!(fault, Fault::Delay { .. })),
        }
    }

    /// A buffer that the program has, or takes.
    pub fn take_buffer(&mut self) -> Check<Option<WithId>> {
        if let Some(buf) = self.held.pop() {
            return Ok(Some(buf));
        }
        let Some(buf) = self.pool.take() else { return Ok(None) };
        self.places.go(*buf.context(), Place::Home, Place::Program)?;
        Ok(Some(buf))
    }

    /// Frees a buffer of the program.
    pub fn drop_buffer(&mut self, buf: WithId) -> Check {
        self.places.go(*buf.context(), Place::Program, Place::Home)
    }

    fn let_go(&mut self) -> Check {
        while let Some(buf) = self.held.pop() {
            self.drop_buffer(buf)?;
        }
        Ok(())
    }

    /// The invariants after every step.
    pub fn check(&mut self) -> Check {
        let home = self.places.count(Place::Home);
        let available = self.pool.available();
        hold!(home == available, "{home} buffers are free, the pool says {available}");
        let held = self.places.count(Place::Program);
        hold!(
            held == self.held.len(),
            "the program should have {held} buffers, and has {}",
            self.held.len()
        );
        for slot in 0..self.qps.len() {
            self.check_credits(slot)?;
        }
        (0..self.cqs.len()).try_for_each(|at| self.check_bookings(at))
    }

    /// Exactly the queues that may still complete here have bookings.
    fn check_bookings(&self, at: usize) -> Check {
        let booked = self.booked(at);
        if self.config.shares {
            return self.check_claims(at, booked);
        }
        let cq = &self.cqs[at];
        let is = (cq.capacity() - cq.unbooked()) as usize;
        hold!(is == booked, "CQ {at}: it counts {is} booked entries, the model {booked}");
        Ok(())
    }

    /// Claimed is at most what may still complete, and for a ring with such work one entry more.
    fn check_claims(&self, at: usize, booked: usize) -> Check {
        let mut most = booked;
        for life in self.lives.values() {
            let now = [life.sends.len(), life.recvs.len()];
            for direction in [0, 1].into_iter().filter(|&direction| life.cqs()[direction] == at) {
                let left = match life.stages[direction] {
                    Stage::Over => 0,
                    Stage::Alive => now[direction],
                    Stage::Ended | Stage::Known { .. } => life.left[direction],
                };
                most += left + (P::SELECTIVE && direction == 0 && left != 0) as usize;
            }
        }
        let is = self.claimed(at);
        hold!(booked <= is && is <= most, "CQ {at}: {is} are claimed, of {booked} to {most}");
        Ok(())
    }

    /// The entries of a completion queue that are not free.
    pub fn claimed(&self, at: usize) -> usize {
        (self.cqs[at].capacity() - self.cqs[at].unbooked()) as usize
    }

    /// The room that is booked on a completion queue.
    pub fn booked(&self, at: usize) -> usize {
        let lives = self.lives.values().flat_map(|life| life.cqs().into_iter().zip(life.booked));
        let booked: usize = lives.filter(|(cq, _)| *cq == at).map(|(_, room)| room).sum();
        let of_srq = self.srq_books_on.contains(&at);
        booked + if of_srq { self.config.buffers } else { 0 }
    }

    /// It gets more or less room, but not less than is booked.
    fn resize(&mut self, at: usize, by: u8) -> Check {
        let booked = if self.config.shares { self.claimed(at) } else { self.booked(at) } as u32;
        let asked = (booked + u32::from(by)).saturating_sub(20).max(1);
        let cq = &mut self.cqs[at];
        match cq.resize(asked) {
            Ok(()) => hold!(asked >= booked, "CQ {at}: {booked} are booked, and it has {asked}"),
            Err(error) => hold!(
                matches!(error.kind(), ErrorKind::Booked { .. }) && asked < booked,
                "CQ {at}: {booked} are booked, {asked} were requested: {error}"
            ),
        }
        self.largest[at] = self.largest[at].max(cq.capacity());
        Ok(())
    }

    fn check_credits(&mut self, slot: usize) -> Check {
        if matches!(self.qps[slot].any, Any::Gone) {
            return Ok(());
        }
        let qpn = self.qps[slot].qpn;
        let (mut send_held, mut recv_held) = (0, 0);
        for life in self.lives.values().filter(|life| life.qpn == qpn) {
            send_held += life.withheld.0;
            recv_held += life.withheld.1;
        }
        let life = self.life(slot);
        let (sends, recvs) = (life.sends.len(), life.recvs.len());
        let depth = (self.config.send_depth as usize, self.config.recv_depth as usize);
        let qp = &mut self.qps[slot];
        let out = (qp.any.sends_outstanding(), qp.any.recvs_outstanding());
        hold!(
            out == (sends, recvs),
            "QP {slot}: it counts {out:?} outstanding sends and receives, the model {:?}",
            (sends, recvs)
        );
        let free = |poisoned, depth: usize, used| if poisoned { 0 } else { depth - used };
        let mut send_room = free(qp.poisoned.0, depth.0, (sends + send_held).min(depth.0));
        let mut recv_room = free(qp.poisoned.1, depth.1, (recvs + recv_held).min(depth.1));
        if P::SHARED {
            recv_room = 0;
        }
        let rooms = qp.any.rooms();
        if self.config.shares {
            // A ring may hold one that is claimed.
            let free = |cq: usize| self.cqs[cq].unbooked() as usize;
            let is_held = P::SELECTIVE && rooms.0 == free(qp.send_cq) + 1;
            send_room = send_room.min(free(qp.send_cq) + is_held as usize);
            recv_room = recv_room.min(free(qp.recv_cq));
        }
        hold!(
            rooms == (send_room, recv_room),
            "QP {slot}: it counts room for {rooms:?} sends and receives, the model {:?}",
            (send_room, recv_room)
        );
        Ok(())
    }

    /// All regions contain the written bytes, except where requests are in transit.
    pub fn check_region(&mut self, slot: usize) -> Check {
        let (memory, region) = &mut self.regions[slot];
        let mut bytes = vec![0; REGION];
        memory.read_at(0, &mut bytes).expect("inside");
        if T::RELIABLE {
            let at = bytes.iter().zip(&region.bytes).position(|(is, must)| is != must);
            hold!(at.is_none(), "region {slot} differs from what was written to it at {at:?}");
            return Ok(());
        }
        for (i, piece) in bytes.chunks(64).enumerate() {
            let number = u64::from_le_bytes(piece[..8].try_into().expect("8 bytes"));
            let known = region.written.get(&i).is_some_and(|all| all.contains(&number));
            let whole = known && piece == content(number, 64);
            hold!(
                whole || piece.iter().all(|&byte| byte == 0),
                "region {slot}: piece {i} is not a write, or only part of one"
            );
        }
        Ok(())
    }

    /// The effect of the device on the peer's region is unknown, so the model copies it.
    pub fn resync(&mut self, slot: usize) {
        let (memory, region) = &mut self.regions[slot ^ 1];
        memory.read_at(0, &mut region.bytes).expect("inside");
    }
}
