//! What a generated program has around it: ways to connected queue pairs, and what must hold for every program.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use proverbs::loopback::{Fabric, Personality};
use proverbs::*;

/// A generated program.
pub struct Program {
    pub number: u64,
    /// It forgets something, so that buffers may stay away.
    pub forgets: bool,
    pub run: fn(&World),
}

// What DefaultProfile is not.
profile! { pub Ring { signaling: Selective } }
profile! { pub Served { receive: SharedRq } }
profile! { pub ServedRing { receive: SharedRq, signaling: Selective } }
profile! { pub Lists { entry: BufList, max_send_sge: 3, max_recv_sge: 3 } }
profile! { pub Mixed { entry: AnyBuf, max_send_sge: 3, max_recv_sge: 2 } }
profile! { pub MixedRing { entry: AnyBuf, signaling: Selective, max_send_sge: 3, max_recv_sge: 2 } }

/// Of each queue pair that a program makes.
pub const DEPTH: Depth = Depth { send: 8, recv: 8 };
/// What such a queue pair books of its completion queues.
const BOOKED: u32 = DEPTH.send + 1 + DEPTH.recv;
/// Polls that find nothing, before nothing is expected: what was delayed comes in some.
const EMPTY: u32 = 8;
/// Of each pool; a shared receive queue books as much.
pub const BUFFERS: usize = 12;

/// What the programs panic with when they mean to.
struct Planned;

/// A panic that belongs to the program.
pub fn planned() {
    resume_unwind(Box::new(Planned));
}

pub struct World {
    pub fabric: Fabric,
    pools: Mutex<Vec<Pool>>,
    /// What peers may have written: rkey, address, length.
    written: Mutex<Vec<(u32, u64, u64)>>,
    /// Bytes that READs asked for.
    read: Mutex<Vec<u64>>,
    complaint: Mutex<Option<String>>,
}

/// Runs it in each kind of world; why it failed, if it did. Miri sees the worst devices, and by turns those that write least.
pub fn run(program: &Program) -> Option<String> {
    use loopback::World;
    let worst = Personality::worst(program.number);
    let native = [
        ("plain", World::ipv4()),
        ("rxe", World::ipv4().personality(Personality::Rxe)),
        ("mlx5", World::ipv4().personality(Personality::Mlx5)),
        ("worst", World::ipv4().personality(worst)),
        ("worst, IPv6", World::ipv6().personality(worst)),
    ];
    let all = match (cfg!(miri), program.number % 2) {
        (false, _) => &native[..],
        (true, 0) => &native[3..4],
        (true, _) => &native[2..3],
    };
    all.iter().find_map(|(name, it)| run_in(program, *it).map(|why| format!("{why} (on {name})")))
}

fn run_in(program: &Program, world: loopback::World) -> Option<String> {
    let world = World {
        fabric: Fabric::with(world),
        pools: Mutex::default(),
        written: Mutex::default(),
        read: Mutex::default(),
        complaint: Mutex::default(),
    };
    world.catch(|| (program.run)(&world));
    if !program.forgets {
        world.home("after everything was dropped");
    }
    lock(&world.complaint).take()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn message(payload: &(dyn Any + std::marker::Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or("a panic".to_owned())
}

impl World {
    /// Notes what must not be; the first is told.
    pub fn complain(&self, why: impl Into<String>) {
        lock(&self.complaint).get_or_insert(why.into());
    }

    /// Lets planned panics go no further; others are complaints.
    pub fn catch(&self, act: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(act)) {
            if !payload.is::<Planned>() {
                self.complain(format!("it panicked: {}", message(&*payload)));
            }
        }
    }

    /// Runs both at once.
    pub fn both<A, B>(
        &self,
        one: impl FnOnce() -> A + std::marker::Send,
        two: impl FnOnce() -> B + std::marker::Send,
    ) -> (A, B)
    where
        A: std::marker::Send,
        B: std::marker::Send,
    {
        thread::scope(|scope| {
            let one = scope.spawn(one);
            let two = scope.spawn(two);
            (ended(one.join()), ended(two.join()))
        })
    }

    /// Runs it on another thread.
    pub fn apart<A: std::marker::Send>(&self, act: impl FnOnce() -> A + std::marker::Send) -> A {
        thread::scope(|scope| ended(scope.spawn(act).join()))
    }

    /// Every buffer is in its pool.
    pub fn home(&self, when: &str) {
        for pool in lock(&self.pools).iter() {
            let (here, all) = (pool.available(), pool.count());
            if here != all {
                self.complain(format!("{here} of {all} buffers are home {when}"));
            }
        }
    }

    pub fn pool(&self, pd: &ProtectionDomain, size: usize) -> Option<Pool> {
        let pool = pd.create_pool(BUFFERS, size).ok()?;
        lock(&self.pools).push(pool.clone());
        Some(pool)
    }

    /// Polls until nothing comes, as a program does that looks at nothing.
    pub fn dry<E: Entry>(&self, cq: &mut CompletionQueue<E>) {
        let mut empty = 0;
        for _ in 0..2000 {
            match cq.poll() {
                Ok(completions) if completions.is_empty() => empty += 1,
                Ok(completions) => {
                    empty = 0;
                    completions.for_each(drop);
                }
                Err(_) => return,
            }
            if empty == EMPTY {
                return;
            }
        }
        self.complain("a completion queue is never empty");
    }

    /// What no living queue pair or shared receive queue books is free.
    pub fn room<E: Entry>(&self, cq: &CompletionQueue<E>, qps: u32, srqs: u32) {
        let booked = BOOKED * qps + BUFFERS as u32 * srqs;
        let (free, all) = (cq.unbooked(), cq.capacity());
        if free + booked < all {
            let alive = format!("{qps} queue pairs and {srqs} shared receive queues live");
            self.complain(format!("{free} of {all} entries are not booked, but {alive}"));
        }
    }

    /// The queue pair is in the error state, and its completion queue was polled to its end: nothing is outstanding.
    pub fn flushed<T: Transport, P: Profile>(
        &self,
        qp: &QueuePair<T, Error, P>,
        cq: &mut CompletionQueue<P::Entry>,
        strict: bool,
    ) {
        self.dry(cq);
        let (sends, receives) = (qp.sends_outstanding(), qp.recvs_outstanding());
        if strict && sends + receives != 0 {
            self.complain(format!(
                "{sends} sends and {receives} receives are outstanding after all completions were taken"
            ));
        }
    }

    /// Its room is back at once: nothing of it was outstanding.
    pub fn ended<T: Transport, P: Profile<Entry: Owned>>(
        &self,
        mut qp: QueuePair<T, Error, P>,
        cq: &mut CompletionQueue<P::Entry>,
        strict: bool,
    ) -> Vec<P::Entry> {
        let mut home = Vec::new();
        let drained = qp.drain(cq, |found| {
            if let Drained::Entry(entry) = found {
                home.push(entry);
            }
        });
        let (depth, before) = (qp.depth(), cq.unbooked());
        match drained {
            Ok(()) => {
                home.extend(qp.destroy().into_iter().flatten());
                if strict && cq.unbooked() < before + depth.send + 1 + depth.recv {
                    self.complain("a drained and destroyed queue pair has room booked");
                }
            }
            Err(error) if strict => self.complain(format!("drain: {error}")),
            Err(_) => {}
        }
        home
    }

    /// From now on the peer's bytes here are expected.
    pub fn opens<A: Access>(&self, remote: RemoteSlice<A>) {
        let bytes = remote.to_bytes();
        let word = |at: usize| bytes[at..at + 8].iter().fold(0, |all, b| all << 8 | u64::from(*b));
        let rkey = bytes[16..20].iter().fold(0, |all, b| all << 8 | u32::from(*b));
        lock(&self.written).push((rkey, word(0), word(8)));
    }

    /// Nothing was written besides what was aimed at.
    pub fn untouched<A: Access + Remote>(&self, region: &MemoryRegion<A>) {
        let bytes = region.remote().to_bytes();
        let addr = bytes[..8].iter().fold(0, |all, b| all << 8 | u64::from(*b));
        let mut content = vec![0; region.len()];
        if region.read_at(0, &mut content).is_err() {
            return self.complain("a region cannot be read from end to end");
        }
        let written = lock(&self.written);
        for (at, _) in content.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            let at = addr + at as u64;
            if !written.iter().any(|(_, from, len)| *from <= at && at - from < *len) {
                return self.complain(format!("byte {} of a region was written", at - addr));
            }
        }
    }

    pub fn vector(&self, context: &Context) -> Option<AddressVector> {
        Some(AddressVector::roce(1, context.query_gid(1, 1).ok()?, 1))
    }

    /// The bytes are those that a program sends: each one more than that before it.
    pub fn sent_like_this(&self, bytes: &[u8]) {
        if bytes.windows(2).any(|two| two[1] != two[0].wrapping_add(1)) {
            self.complain(format!("these bytes were never sent: {bytes:x?}"));
        }
    }

    pub fn received<E: Entry>(&self, received: &Received<E>) {
        if received.opcode == WcOpcode::Recv {
            let bytes: Vec<u8> = received.segments().flatten().copied().collect();
            self.sent_like_this(&bytes);
            if bytes.len() != received.byte_len as usize && received.entry.is_some() {
                self.complain("a message is not as long as its completion says");
            }
        }
    }

    pub fn datagram<E: Entry>(&self, received: &UdReceived<E>) {
        let bytes: Vec<u8> = received.payload_segments().flatten().copied().collect();
        self.sent_like_this(&bytes);
        let here = received.entry.is_some();
        if here && bytes.len() != received.payload_len() {
            self.complain("a datagram is not as long as its completion says");
        }
        if received.reply_vector(1, 1).is_some() {
            let grh = received.grh();
            let known = grh.is_none_or(|it| it.source().is_some() && it.destination().is_some());
            if here && !known {
                self.complain("a datagram has a way back, and no source");
            }
        }
    }
}

impl World {
    /// A READ brings as many bytes as its slice has.
    pub fn reads(&self, len: u64) {
        lock(&self.read).push(len);
    }

    /// Looks at what a completion says, and gives its entry; a selective one is dropped.
    pub fn outcome<E: Owned + Bytes>(&self, completion: Completion<'_, E>) -> Option<E> {
        match completion.outcome() {
            Outcome::Sent(sent) => {
                let read = sent.opcode == WcOpcode::RdmaRead;
                let bytes = sent.entry.as_ref().map_or(0, |entry| entry.bytes() as u64);
                if read && !lock(&self.read).contains(&bytes) {
                    self.complain(format!("a READ brought {bytes} bytes, which none asked for"));
                }
                sent.entry
            }
            Outcome::Received(received) => {
                self.received(&received);
                received.entry
            }
            Outcome::Datagram(received) => {
                self.datagram(&received);
                received.entry
            }
            Outcome::Failed(failed) => failed.entry,
            _ => None,
        }
    }
}

fn ended<T>(joined: thread::Result<T>) -> T {
    joined.unwrap_or_else(|payload| resume_unwind(payload))
}

/// A buffer with bytes that tell what they are.
pub fn tagged<C>(mut buf: Buf<C>, len: usize, tag: u8) -> Buf<C> {
    buf.set_len(len);
    let mut byte = tag;
    for at in buf.iter_mut() {
        *at = byte;
        byte = byte.wrapping_add(1);
    }
    buf
}

/// Both at once in one function: the first ends while the second lives.
pub fn end_first<'cq, E: Owned>(
    first: Completions<'cq, E>,
    second: Completion<'cq, E>,
) -> Option<E> {
    drop(first);
    second.into_entry()
}

/// How many bytes an entry has.
pub trait Bytes {
    fn bytes(&self) -> usize;
}

impl Bytes for Buf {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Bytes for BufList {
    fn bytes(&self) -> usize {
        self.segments().map(<[u8]>::len).sum()
    }
}

impl Bytes for AnyBuf {
    fn bytes(&self) -> usize {
        match self {
            AnyBuf::Buf(buf) => buf.len(),
            AnyBuf::List(list) => list.bytes(),
            _ => 0,
        }
    }
}
