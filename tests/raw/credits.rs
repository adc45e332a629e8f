//! The port of `credits.c`: the same bookkeeping, in the same order, on the `unsafe` path. The
//! guide's page walks through both.

use std::process::Command;
use std::ptr;

use proverbs::device::Gid;
use proverbs::loopback::{Fabric, Personality};
use proverbs::memory::Raw;
use proverbs::prelude::*;
use proverbs::qp::Max;

use super::{connect, personalities};

const CONNS: usize = 4; // connections
const CREDITS: u32 = 8; // messages that a peer may send without a reply
const SIZE: usize = 256; // bytes of a slot
const HEADER: usize = 16;
const SIGNAL_EVERY: u32 = 4; // one send in this number is signaled
const RECVS: usize = CONNS * CREDITS as usize;
const DEPTH: u32 = 2 * (CREDITS + SIGNAL_EVERY); // sends of a connection before their completion
const SENDS: usize = CONNS * DEPTH as usize;
const ROUNDS: u64 = 100; // requests of each connection

profile! { Books { entry: Raw, receive: SharedRq, signaling: Selective } }

/// The content of a slot's memory.
struct Message {
    credits: u32, // receives that the sender has posted again
    seq: u64,
    body: Vec<u8>,
}

impl Message {
    fn write(&self, region: &MemoryRegion<LocalWrite>, at: usize) -> usize {
        let mut bytes = [0; SIZE];
        let end = HEADER + self.body.len();
        bytes[..4].copy_from_slice(&self.credits.to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[HEADER..end].copy_from_slice(&self.body);
        region.write_at(at, &bytes[..end]).unwrap();
        end
    }

    fn read(region: &MemoryRegion<LocalWrite>, at: usize) -> Message {
        let mut bytes = [0; SIZE];
        region.read_at(at, &mut bytes).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let seq = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        let body = bytes[HEADER..HEADER + word(4) as usize].to_vec();
        Message { credits: word(0), seq, body }
    }
}

/// The target of a wr_id.
struct Slot {
    at: usize,       // its message, in the region
    next: *mut Slot, // in the free list, or in `unsignaled` of a connection
    is_send: bool,
}

fn wr_id(slot: *mut Slot) -> u64 {
    slot.expose_provenance() as u64
}

fn slot_of(wr_id: u64) -> *mut Slot {
    ptr::with_exposed_provenance_mut(wr_id as usize)
}

struct Conn {
    qp: QueuePair<Rc, Rts, Books>,
    credits: u32,          // sends that the peer has room for
    owed: u32,             // reposted receives not yet reported to the peer
    unsignaled: *mut Slot, // sent since the last signaled one, the newest first
    unsignaled_count: u32,
    sent: u64,
    done: u64,
}

/// The queue pairs are dropped first, then the shared receive queue, then the region.
struct Side {
    conns: Vec<Conn>,
    srq: SharedReceiveQueue<Rc, Raw>,
    cq: CompletionQueue<Raw>,
    region: MemoryRegion<LocalWrite>,
    _slots: Vec<Slot>,
    free: *mut Slot,
    is_server: bool,
}

impl Side {
    /// Posts receives with one call.
    ///
    /// # Safety
    /// The slots are this side's receives, and not posted.
    unsafe fn post_recvs(&mut self, slots: &[*mut Slot]) {
        let Side { srq, region, .. } = self;
        let mut room = RecvSlots::<RECVS>::new();
        let recv = |i: usize| {
            // SAFETY: the slots live as long as this side.
            let at = unsafe { (*slots[i]).at };
            let piece = wr::Piece::new(region, at..at + SIZE).unwrap();
            wr::Recv::new(wr::Sge::new(wr_id(slots[i]), [piece]))
        };
        // SAFETY: the region outlives the shared receive queue, no code accesses a slot until its
        // completion, and there are at most RECVS receives, for which the queue has room.
        unsafe { srq.post_srq_recv_list_unchecked(&mut room, slots.len(), recv) }.unwrap();
    }

    /// Sends a message, if a slot is free and the peer has room.
    fn send_message(&mut self, conn: usize, seq: u64, body: &[u8]) -> bool {
        let conn = &mut self.conns[conn];
        if self.free.is_null() || conn.credits == 0 {
            return false;
        }
        let slot = self.free;
        // SAFETY: a free slot has no other user, and lives as long as this side.
        let at = unsafe {
            self.free = (*slot).next;
            (*slot).next = conn.unsignaled;
            (*slot).at
        };
        conn.credits -= 1;
        let message = Message { credits: conn.owed, seq, body: body.to_vec() };
        conn.owed = 0;
        let end = message.write(&self.region, at);
        conn.unsignaled = slot;
        conn.unsignaled_count += 1;

        let is_signaled = conn.unsignaled_count == SIGNAL_EVERY;
        let piece = wr::Piece::new(&self.region, at..at + end).unwrap();
        let send = wr::Send::new(wr::Sge::new(wr_id(slot), [piece])).signaled_if(is_signaled);
        if is_signaled {
            // Its completion frees these: the list stays with the slot.
            conn.unsignaled = ptr::null_mut();
            conn.unsignaled_count = 0;
        }
        // SAFETY: the region outlives the queue pair, and no code writes to a sent slot until the
        // completion of this send or of a later one. By DEPTH the completion queue has room.
        unsafe { conn.qp.post_send_unchecked(send) }.unwrap();
        true
    }

    fn received(&mut self, index: usize, message: &Message) {
        let conn = &mut self.conns[index];
        conn.credits += message.credits;
        conn.owed += 1;
        if self.is_server {
            assert_eq!(message.body, b"request\0");
            // Each request's credit pays for its reply.
            assert!(self.send_message(index, message.seq, b"reply\0"), "no room for a reply");
        } else {
            assert_eq!((message.seq, &*message.body), (conn.done, &b"reply\0"[..]));
            conn.done += 1;
        }
    }

    /// Handles completions, and posts the receives again.
    fn poll(&mut self) {
        let (mut again, mut arrived) = (Vec::new(), Vec::new());
        for completion in self.cq.poll().unwrap() {
            completion.status().unwrap();
            let mut slot = slot_of(completion.raw_wr_id());
            // SAFETY: each wr_id is a pointer to a slot of this side. A completion returns it: a
            // send also returns those before it.
            unsafe {
                if (*slot).is_send {
                    while !slot.is_null() {
                        let next = (*slot).next;
                        (*slot).next = self.free;
                        self.free = slot;
                        slot = next;
                    }
                } else {
                    let number = completion.qp_num();
                    let from = self.conns.iter().position(|it| it.qp.qp_num() == number).unwrap();
                    arrived.push((from, Message::read(&self.region, (*slot).at)));
                    again.push(slot);
                }
            }
        }
        // Before the replies, which report the credits to the peer. SAFETY: they just completed.
        unsafe { self.post_recvs(&again) };
        for (from, message) in &arrived {
            self.received(*from, message);
        }
    }
}

/// The queues of a side, before its queue pairs are connected.
fn open(context: &Context, is_server: bool) -> (Side, Vec<QueuePair<Rc, Reset, Books>>) {
    let pd = context.alloc_pd().unwrap();
    let region = pd.register::<LocalWrite>((RECVS + SENDS) * SIZE).unwrap();
    let cq = context.create_cq((RECVS + SENDS + CONNS) as u32).unwrap();
    let srq = pd.create_raw_srq::<Rc, Max<1>>(RECVS as u32).unwrap();
    let slot = |i| Slot { at: i * SIZE, next: ptr::null_mut(), is_send: i >= RECVS };
    let mut slots: Vec<Slot> = (0..RECVS + SENDS).map(slot).collect();
    let first = slots.as_mut_ptr();
    let all: Vec<*mut Slot> = (0..RECVS + SENDS).map(|i| first.wrapping_add(i)).collect();
    let (recvs, sends) = all.split_at(RECVS);
    let mut free = ptr::null_mut();
    for &slot in sends {
        // SAFETY: one of the slots, which has no other user.
        unsafe { (*slot).next = free };
        free = slot;
    }
    let create = |_| pd.create_qp::<Rc, Books>(&cq, &cq, Depth::on_srq(DEPTH, &srq));
    let qps = (0..CONNS).map(create).collect::<Result<_, _>>().unwrap();
    let mut side = Side { conns: Vec::new(), srq, cq, region, _slots: slots, free, is_server };
    // SAFETY: none is posted yet.
    unsafe { side.post_recvs(recvs) };
    (side, qps)
}

/// The two sides, connected to each other.
fn connected(context: &Context, gid: Gid) -> (Side, Side) {
    let (mut client, client_qps) = open(context, false);
    let (mut server, server_qps) = open(context, true);
    let conn = |qp, peer| Conn {
        qp: connect(qp, gid, peer),
        credits: CREDITS,
        owed: 0,
        unsignaled: ptr::null_mut(),
        unsignaled_count: 0,
        sent: 0,
        done: 0,
    };
    for (a, b) in client_qps.into_iter().zip(server_qps) {
        let (a_num, b_num) = (a.qp_num(), b.qp_num());
        client.conns.push(conn(a, b_num));
        server.conns.push(conn(b, a_num));
    }
    (client, server)
}

fn run(personality: Personality) {
    let context = Fabric::with(personality).open_device();
    let gid = context.query_gid(1, 1).unwrap();
    let (mut client, mut server) = connected(&context, gid);
    for _ in 0..1_000_000 {
        if client.conns.iter().all(|conn| conn.done == ROUNDS) {
            return;
        }
        for i in 0..CONNS {
            while client.conns[i].sent < ROUNDS
                && client.send_message(i, client.conns[i].sent, b"request\0")
            {
                client.conns[i].sent += 1;
            }
        }
        server.poll();
        client.poll();
    }
    panic!("{personality}: requests were not answered");
}

#[test]
fn the_port_answers_every_request() {
    personalities().into_iter().for_each(run);
}

/// The ported program is real C: a compiler, if there is one with the headers of rdma-core, accepts
/// it without a warning.
#[test]
fn the_program_compiles() {
    let check = |from: &str| {
        let mut cc = Command::new("cc");
        cc.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/raw"));
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", from]);
        cc.output()
    };
    if !check("/usr/include/infiniband/verbs.h").is_ok_and(|it| it.status.success()) {
        eprintln!("skipped: needs cc and libibverbs-dev");
        return;
    }
    let output = check("credits.c").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
