//! SRD, on loopback devices that deliver in an order given by a seed, which each test prints.

use std::collections::BTreeSet;

use proverbs::bounded::{RnrRetries, RnrRetry};
use proverbs::completion::{Direction, WcOpcode};
use proverbs::device::AhIndex;
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::srd::SrdRts;
use proverbs::ext::srd::{ForSrd, OneElement, Sender, TellsOfEach};
use proverbs::loopback::{Fabric, Fault, Script, World};
use proverbs::prelude::*;
use proverbs::qp::{Drained, QpQkey, UdReinit, UdReturn};
use proverbs::rules::UsesOwnQueue;

use proverbs::state::QpState;

use crate::endings::{WAYS, end};
use crate::support::*;

profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)>, max_inline: 32 } }
profile! { Sending { posting: ExtendedPosting<Srd>, initiator: NoReads, max_inline: 0 } }
profile! { Any { posting: ExtendedPosting<(Srd, wr::RdmaWrite)>, entry: AnyBuf } }

type Qp<P = Spread> = QueuePair<Srd, Rts, P>;

const KEY: u32 = 0x1111_1111;
const DEPTH: Depth = Depth { send: 16, recv: 16 };

fn seeds() -> impl Iterator<Item = u64> {
    (0..if cfg!(miri) { 2 } else { 24 }).inspect(|seed| println!("shuffled by seed {seed}"))
}

fn key() -> Qkey {
    Qkey::try_from(KEY).unwrap()
}

/// A device and its objects.
struct End {
    dev: Device,
    pd: ProtectionDomain,
    pool: Pool,
    cq: CompletionQueue,
}

impl End {
    fn on(fabric: &Fabric) -> End {
        let dev = Device::loopback(fabric);
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(64, 256).unwrap();
        let cq = dev.ctx.create_cq(200).unwrap();
        End { dev, pd, pool, cq }
    }

    fn reset<P>(&self) -> QueuePair<Srd, Reset, P>
    where
        P: Profile<Entry = Buf, Threads = AnyThread>,
        P::Receive: UsesOwnQueue,
        P::Signaling: TellsOfEach,
        P::MaxSendSge: OneElement,
        P::Posting: ForSrd,
    {
        self.pd.create_qp::<Srd, P>(&self.cq, &self.cq, DEPTH).unwrap()
    }

    fn init(&self) -> QueuePair<Srd, Init, Spread> {
        self.reset().modify(UdInit { pkey_index: 0, port: 1, qkey: key().into() }).unwrap()
    }

    fn qp(&self) -> Qp {
        self.up(SrdRts::new(Psn::try_from(0).unwrap()))
    }

    fn up(&self, rts: SrdRts) -> Qp {
        self.init().modify(UdRtr::default()).unwrap().modify(rts).unwrap()
    }

    /// An address handle to `there`.
    fn way(&self, there: &End) -> proverbs::device::AddressHandle {
        let gid = there.dev.ctx.query_gid(1, 1).unwrap();
        self.pd.create_ah(AddressVector::roce(1, gid, 1)).unwrap()
    }
}

fn fabric(seed: u64) -> Fabric {
    Fabric::with(World::efa().personality(Device::personality()).shuffled(seed))
}

fn to(address_handle: AhIndex, qp_num: u32) -> wr::Destination {
    wr::Destination { address_handle, qpn: Qpn::try_from(qp_num).unwrap(), qkey: key() }
}

/// One queue pair on each of two devices that reach each other.
struct Ends {
    one: End,
    two: End,
    a: Qp,
    b: Qp,
    to_b: wr::Destination,
}

impl Ends {
    fn new(seed: u64) -> Ends {
        let fabric = fabric(seed);
        let (one, two) = (End::on(&fabric), End::on(&fabric));
        let (mut a, mut b) = (one.qp(), two.qp());
        let to_b = to(a.add_address_handle(one.way(&two)).unwrap(), b.qp_num());
        // RDMA requires an address handle back.
        b.add_address_handle(two.way(&one)).unwrap();
        Ends { one, two, a, b, to_b }
    }

    fn receives(&mut self, n: usize) {
        for _ in 0..n {
            self.b.post_recv(wr::Recv::new(poisoned(&self.two.pool))).unwrap();
        }
    }

    fn sent(&mut self, n: usize) -> Vec<Done<Buf>> {
        poll(&self.one.dev, &mut self.one.cq, n)
    }

    fn arrived(&mut self, n: usize) -> Vec<Done<Buf>> {
        poll(&self.two.dev, &mut self.two.cq, n)
    }
}

/// Every opcode of SRD, from a buffer, inline and empty.
/// Proves R27.2, R27.8.
#[test]
fn each_opcode_arrives() {
    for seed in seeds() {
        let mut ends = Ends::new(seed);
        let region = ends.two.pd.register::<RemoteReadWrite>(256).unwrap();
        region.write_at(192, b"read me!").unwrap();
        let part = |at, len| region.remote().slice(at, len).unwrap();
        let to = ends.to_b;
        ends.receives(6);
        let pool = &ends.one.pool;
        ends.a.post_send(wr::Send::new(filled(pool, b"a buffer")).to(to)).unwrap();
        ends.a.post_send(wr::Send::inline(b"inline").to(to)).unwrap();
        // With one element (R27.6).
        ends.a.post_send(wr::Send::inline_list([b"one slice"]).to(to)).unwrap();
        ends.a.post_send(wr::SendWithImm::new(wr::Empty, 0x0102_0304).to(to)).unwrap();
        let write = wr::RdmaWrite::new(filled(pool, b"written"), part(0, 7).write());
        ends.a.post_send(write.to(to)).unwrap();
        let inline = wr::RdmaWrite::inline(b"inline too", part(64, 10).write());
        ends.a.post_send(inline.to(to)).unwrap();
        let notes = wr::RdmaWriteWithImm::new(filled(pool, b"told"), part(128, 4).write(), 7);
        ends.a.post_send(notes.to(to)).unwrap();
        let none = wr::RdmaWriteWithImm::inline(b"", part(256, 0).write(), 8);
        ends.a.post_send(none.to(to)).unwrap();
        let read = wr::RdmaRead::new(poisoned(pool), part(192, 8).read());
        ends.a.post_send(read.to(to)).unwrap();

        let sent: Vec<_> = ends.sent(9).into_iter().map(Done::sent).collect();
        let count = |opcode| sent.iter().filter(|sent| sent.opcode == opcode).count();
        // A READ is reported as a SEND (R27.8); the buffer shows which it is.
        assert_eq!((count(WcOpcode::Send), count(WcOpcode::RdmaWrite)), (5, 4));
        let home: BTreeSet<_> =
            sent.iter().filter_map(|sent| Some(sent.entry.as_ref()?.to_vec())).collect();
        let expected: [&[u8]; 4] = [b"a buffer", b"written", b"told", b"read me!"];
        assert_eq!(home, expected.map(<[u8]>::to_vec).into());

        let got = ends.arrived(6).into_iter().map(Done::received);
        let got: BTreeSet<_> =
            got.map(|got| (got.imm_data, got.byte_len, got.data().to_vec())).collect();
        let expected: [(Option<u32>, u32, &[u8]); 6] = [
            (None, 8, b"a buffer"),
            (None, 6, b"inline"),
            (None, 9, b"one slice"),
            (Some(0x0102_0304), 0, b""),
            (Some(7), 4, b""),
            (Some(8), 0, b""),
        ];
        assert_eq!(got, expected.map(|(imm, len, bytes)| (imm, len, bytes.to_vec())).into());
        let mut there = [0; 10];
        for (at, bytes) in [(0, &b"written"[..]), (64, b"inline too"), (128, b"told")] {
            region.read_at(at, &mut there[..bytes.len()]).unwrap();
            assert_eq!(&there[..bytes.len()], bytes);
        }
    }
}

/// Messages arrive, and complete, in another order than they were posted. Each completion returns
/// the buffer of its own work request.
/// Proves R27.1, R27.3.
#[test]
fn messages_have_no_order_and_each_buffer_returns_with_its_completion() {
    let (mut arrivals, mut completions) = (BTreeSet::new(), BTreeSet::new());
    for seed in seeds() {
        let mut ends = Ends::new(seed);
        ends.receives(8);
        for n in 0..8u8 {
            ends.a.post_send(wr::Send::new(filled(&ends.one.pool, &[n; 9])).to(ends.to_b)).unwrap();
        }
        let sent = ends.sent(8).into_iter().map(|done| done.sent().entry.unwrap());
        let sent: Vec<u8> = sent.map(|buf| buf[0]).collect();
        assert_eq!(ends.one.pool.available(), 64);
        let got: Vec<u8> =
            ends.arrived(8).into_iter().map(|done| done.received().data()[0]).collect();
        assert_eq!(BTreeSet::from_iter(&sent), BTreeSet::from_iter(&(0..8).collect::<Vec<u8>>()));
        arrivals.insert(got);
        completions.insert(sent);
    }
    let in_order: Vec<u8> = (0..8).collect();
    assert!(arrivals.iter().any(|got| *got != in_order), "{arrivals:?}");
    assert!(completions.len() > 1 && arrivals.len() > 1);
    // The same seed gives the same order.
    let of = |seed| {
        let mut ends = Ends::new(seed);
        ends.receives(8);
        for n in 0..8u8 {
            ends.a.post_send(wr::Send::inline_slice(&[n]).to(ends.to_b)).unwrap();
        }
        ends.arrived(8).into_iter().map(|done| done.received().data()[0]).collect::<Vec<_>>()
    };
    assert_eq!(of(3), of(3));
}

/// Unlike on RC, a SEND after a WRITE, in a separate post, may arrive first.
/// Proves R27.1, R27.4.
#[test]
fn a_send_does_not_follow_an_earlier_write() {
    let mut overtaken = 0;
    for seed in seeds() {
        let mut ends = Ends::new(seed);
        let region = ends.two.pd.register::<RemoteWrite>(8).unwrap();
        ends.receives(1);
        let write = wr::RdmaWrite::inline(b"8 bytes!", region.remote().write());
        ends.a.post_send(write.to(ends.to_b)).unwrap();
        ends.a.post_send(wr::Send::inline(b"it is there").to(ends.to_b)).unwrap();
        assert_eq!(ends.arrived(1).remove(0).received().data(), b"it is there");
        let mut there = [0; 8];
        region.read_at(0, &mut there).unwrap();
        overtaken += (&there != b"8 bytes!") as u32;
        // Its completion does.
        ends.sent(2);
        region.read_at(0, &mut there).unwrap();
        assert_eq!(&there, b"8 bytes!");
    }
    assert!(cfg!(miri) || overtaken != 0);
}

/// One queue pair and many peers. An arrival has its sender and an address handle back.
/// Proves R27.10.
#[test]
fn one_queue_pair_reaches_many_peers_and_identifies_senders() {
    for seed in seeds().take(4) {
        let fabric = fabric(seed);
        let mut server = End::on(&fabric);
        let mut queue = server.qp();
        for _ in 0..6 {
            queue.post_recv(wr::Recv::new(poisoned(&server.pool))).unwrap();
        }
        let clients: Vec<End> = (0..3).map(|_| End::on(&fabric)).collect();
        let mut qps: Vec<Qp> = clients.iter().map(End::qp).collect();
        // It has address handles for the first two.
        let mut numbers = Vec::new();
        for client in &clients[..2] {
            let ah = server.way(client);
            numbers.push(ah.efa_number().unwrap());
            queue.add_address_handle(ah).unwrap();
        }
        assert_ne!(numbers[0], numbers[1]);
        for (i, (client, qp)) in clients.iter().zip(&mut qps).enumerate() {
            let to = to(qp.add_address_handle(client.way(&server)).unwrap(), queue.qp_num());
            post_send!(
                qp,
                [
                    wr::SendWithImm::new(filled(&client.pool, &[i as u8]), i as u32).to(to),
                    wr::Send::inline_slice(&[i as u8]).to(to),
                ]
            )
            .unwrap();
        }
        let mut deadline = server.dev.deadline("six messages");
        let mut seen = 0;
        while seen < 6 {
            deadline.tick(&seen);
            for completion in server.cq.poll().unwrap() {
                let Sender { qpn, ah_number, .. } = queue.sender(&completion).unwrap();
                let Outcome::Received(message) = completion.outcome() else { panic!() };
                let i = usize::from(message.data()[0]);
                assert_eq!(qpn.get(), qps[i].qp_num());
                assert_eq!(ah_number, numbers.get(i).copied());
                seen += 1;
            }
        }
        for client in clients {
            let mut cq = client.cq;
            for done in poll(&client.dev, &mut cq, 2) {
                done.sent();
            }
        }
    }
}

/// Only an arrival of the queue pair itself has a sender.
/// Proves R27.10.
#[test]
fn only_an_arrival_has_a_sender() {
    let fabric = fabric(0);
    let mut end = End::on(&fabric);
    let (mut a, mut b) = (end.qp(), end.qp());
    let to_b = to(a.add_address_handle(end.way(&end)).unwrap(), b.qp_num());
    b.post_recv(wr::Recv::new(poisoned(&end.pool))).unwrap();
    a.post_send(wr::Send::inline(b"x").to(to_b)).unwrap();
    let (mut seen, mut deadline) = (0, end.dev.deadline("a send and an arrival"));
    while seen < 2 {
        deadline.tick(&seen);
        for completion in end.cq.poll().unwrap() {
            let of_b = (completion.direction() == Direction::Receive).then_some(a.qp_num());
            assert_eq!(b.sender(&completion).map(|sender| sender.qpn.get()), of_b);
            assert_eq!(a.sender(&completion), None);
            seen += 1;
        }
    }
    // Nor has a failed one.
    b.post_recv(wr::Recv::empty()).unwrap();
    let b = b.to_error().unwrap();
    let mut deadline = end.dev.deadline("a flushed receive");
    loop {
        if let Some(completion) = end.cq.poll_one().unwrap() {
            assert_eq!((completion.status().is_err(), b.sender(&completion)), (true, None));
            break;
        }
        deadline.tick(&());
    }
}

/// In ERR everything is flushed, in any order; a drain returns all of it, and needs no marker.
/// Proves R27.3.
#[test]
fn a_drain_returns_everything() {
    for seed in seeds() {
        let mut ends = Ends::new(seed);
        // There is no receive, so nothing is sent.
        for n in 0..6u8 {
            ends.a.post_send(wr::Send::new(filled(&ends.one.pool, &[n])).to(ends.to_b)).unwrap();
            ends.a.post_recv(wr::Recv::new(poisoned(&ends.one.pool))).unwrap();
        }
        ends.a.post_send(wr::Send::inline(b"none").to(ends.to_b)).unwrap();
        assert_eq!((ends.a.sends_outstanding(), ends.a.recvs_outstanding()), (7, 6));
        let mut a = ends.a.to_error().unwrap();
        let mut home = Vec::new();
        a.drain(&mut ends.one.cq, |found| match found {
            Drained::Entry(buf) => home.push(buf),
            Drained::Other(other) => panic!("{other:?}"),
        })
        .unwrap();
        assert_eq!(home.len(), 12);
        assert_eq!((a.sends_outstanding(), a.recvs_outstanding()), (0, 0));
        drop(home);
        assert_eq!(ends.one.pool.available(), 64);
        // From RESET it can be brought up again.
        let qp = a.reset().unwrap();
        let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: key().into() }).unwrap();
        let qp = qp.modify(UdRtr::default()).unwrap();
        qp.modify(SrdRts::new(Psn::try_from(7).unwrap())).unwrap();
    }
}

/// A removed address handle waits for all sends that may name it: since completions have no order,
/// their count does not identify these sends.
///
/// On SRD an address handle is destroyed only after each send that names it has
/// completed.
/// Proves R27.3.
#[test]
fn a_removed_address_handle_outlives_sends_that_name_it() {
    for seed in seeds() {
        let mut ends = Ends::new(seed);
        let other = ends.a.add_address_handle(ends.one.way(&ends.two)).unwrap();
        let again = wr::Destination { address_handle: other, ..ends.to_b };
        // By the first handle, without a receive; then by the second, whose WRITE completes first.
        ends.a.post_send(wr::Send::inline(b"waits").to(ends.to_b)).unwrap();
        assert!(ends.a.remove_address_handle(ends.to_b.address_handle));
        let region = ends.two.pd.register::<RemoteWrite>(8).unwrap();
        for _ in 0..3 {
            let write = wr::RdmaWrite::inline(b"goes on!", region.remote().write());
            ends.a.post_send(write.to(again)).unwrap();
        }
        ends.sent(3);
        // More sends have completed than were posted before the removal. (The loopback device
        // reports the destruction of a handle that is still named.)
        assert_eq!((ends.a.sends_outstanding(), ends.a.reap_address_handles()), (1, 1));
        ends.receives(1);
        ends.sent(1);
        assert_eq!(ends.a.reap_address_handles(), 0);
        let gone = wr::Send::inline(b"gone").to(ends.to_b);
        assert!(ends.a.post_send(gone).is_err());
    }
}

/// A failed message returns only its own buffer, and the queue pair continues.
/// Proves R27.11.
#[test]
fn a_failure_affects_one_message() {
    for seed in seeds() {
        let mut ends = Ends::new(seed);
        let region = ends.two.pd.register::<RemoteRead>(8).unwrap();
        let other = ends.one.pd.register::<RemoteWrite>(8).unwrap();
        ends.receives(1);
        let pool = &ends.one.pool;
        let stranger = wr::Destination { qpn: Qpn::try_from(0xff_fff0).unwrap(), ..ends.to_b };
        let locked = wr::Destination { qkey: Qkey::try_from(1).unwrap(), ..ends.to_b };
        ends.a.post_send(wr::Send::new(filled(pool, b"1")).to(stranger)).unwrap();
        ends.a.post_send(wr::Send::new(filled(pool, b"2")).to(locked)).unwrap();
        // A key that does not exist.
        let write = wr::RdmaWrite::new(filled(pool, b"3"), other.remote().write());
        ends.a.post_send(write.to(ends.to_b)).unwrap();
        let read = wr::RdmaRead::new(filled(pool, b"........"), region.remote().read());
        ends.a.post_send(read.to(ends.to_b)).unwrap();
        ends.a.post_send(wr::Send::new(filled(pool, b"arrives")).to(ends.to_b)).unwrap();
        let (mut failed, mut sent) = (BTreeSet::new(), 0);
        for done in ends.sent(5) {
            match done {
                Done::Failed(it) => {
                    failed.insert((it.entry.unwrap()[..].to_vec(), it.error.status.to_string()));
                }
                _ => sent += 1,
            }
        }
        let unreached = WcStatus::RemInvRdReq.to_string();
        let expected = [
            (b"1".to_vec(), unreached.clone()),
            (b"2".to_vec(), unreached),
            (b"3".to_vec(), WcStatus::RemAccess.to_string()),
        ];
        assert_eq!((failed, sent), (expected.into(), 2));
        assert_eq!(ends.arrived(1).remove(0).received().data(), b"arrives");
        assert_eq!(ends.a.query().unwrap().state, Some(QpState::Rts));
    }
}

/// A peer without an address handle for this side receives sends, but rejects RDMA.
/// Proves R27.9.
#[test]
fn rdma_needs_an_address_handle_back() {
    let fabric = fabric(1);
    let (mut one, two) = (End::on(&fabric), End::on(&fabric));
    let (mut a, mut b) = (one.qp(), two.qp());
    let to_b = to(a.add_address_handle(one.way(&two)).unwrap(), b.qp_num());
    b.post_recv(wr::Recv::empty()).unwrap();
    let region = two.pd.register::<RemoteWrite>(8).unwrap();
    let write = || wr::RdmaWrite::inline(b"8 bytes!", region.remote().write()).to(to_b);
    a.post_send(wr::Send::new(wr::Empty).to(to_b)).unwrap();
    poll(&one.dev, &mut one.cq, 1).remove(0).sent();
    a.post_send(write()).unwrap();
    poll(&one.dev, &mut one.cq, 1).remove(0).failed(Direction::Send, WcStatus::RemOp);
    b.add_address_handle(two.way(&one)).unwrap();
    a.post_send(write()).unwrap();
    poll(&one.dev, &mut one.cq, 1).remove(0).sent();
}

/// A message without a receive blocks no other. It fails after the number of retries set in RTS, or
/// never.
/// Proves R27.11.
#[test]
fn a_receiver_that_is_not_ready_blocks_no_other() {
    let patient = SrdRts::new(Psn::try_from(0).unwrap());
    let hasty = SrdRts { rnr_retry: Some(RnrRetry::Times(RnrRetries::new(1).unwrap())), ..patient };
    for (rts, gives_up) in [(patient, false), (hasty, true)] {
        let fabric = fabric(2);
        let (mut one, two) = (End::on(&fabric), End::on(&fabric));
        let (mut a, mut b, c) = (one.up(rts), two.qp(), two.qp());
        let way = a.add_address_handle(one.way(&two)).unwrap();
        b.post_recv(wr::Recv::empty()).unwrap();
        a.post_send(wr::Send::new(filled(&one.pool, b"waits")).to(to(way, c.qp_num()))).unwrap();
        a.post_send(wr::Send::new(wr::Empty).to(to(way, b.qp_num()))).unwrap();
        assert!(poll(&one.dev, &mut one.cq, 1).remove(0).sent().entry.is_none());
        if gives_up {
            let failed = poll(&one.dev, &mut one.cq, 1).remove(0);
            let failed = failed.failed(Direction::Send, WcStatus::RnrRetryExc);
            assert_eq!(&failed.entry.unwrap()[..], b"waits");
        } else {
            for _ in 0..if cfg!(miri) { 100 } else { 2000 } {
                assert!(one.cq.poll_one().unwrap().is_none());
            }
        }
        drop(c);
    }
}

/// A message that is too long for its receive fails at the sender, and the receive stays.
#[test]
fn a_receive_that_is_too_short_waits_for_another() {
    let mut ends = Ends::new(5);
    let mut short = poisoned(&ends.two.pool);
    short.set_len(256);
    ends.b.post_recv(wr::Recv::new(short)).unwrap();
    let long = ends.one.pd.create_pool(1, 512).unwrap();
    let mut buf = long.take().unwrap();
    buf.set_len(300);
    ends.a.post_send(wr::Send::new(buf).to(ends.to_b)).unwrap();
    ends.sent(1).remove(0).failed(Direction::Send, WcStatus::RemInvReq);
    ends.a.post_send(wr::Send::inline(b"fits").to(ends.to_b)).unwrap();
    ends.sent(1);
    assert_eq!(ends.arrived(1).remove(0).received().data(), b"fits");
}

/// The port's longest message limits SENDs, before they are posted; RDMA may be longer.
/// Proves R27.12.
#[test]
fn only_sends_are_limited_to_a_message() {
    let mut ends = Ends::new(6);
    let longest = ends.one.dev.ctx.query_port(1).unwrap().max_msg_sz as usize;
    let pool = ends.one.pd.create_pool(2, longest + 1).unwrap();
    let region = ends.two.pd.register::<RemoteReadWrite>(longest + 1).unwrap();
    let full = |byte: u8| {
        let mut buf = pool.take().unwrap();
        buf.set_len(longest + 1);
        buf.fill(byte);
        buf
    };
    let error = ends.a.post_send(wr::Send::new(full(1)).to(ends.to_b)).unwrap_err();
    let max = longest as u32;
    let asked = longest as u64 + 1;
    assert_eq!(error.kind(), proverbs::post::PostErrorKind::ExceedsMessage { asked, max });
    drop(error);
    let write = wr::RdmaWrite::new(full(2), region.remote().write());
    ends.a.post_send(write.to(ends.to_b)).unwrap();
    ends.sent(1).remove(0).sent();
    let read = wr::RdmaRead::new(full(3), region.remote().read());
    ends.a.post_send(read.to(ends.to_b)).unwrap();
    let read = ends.sent(1).remove(0).sent().entry.unwrap();
    assert!(read.len() == longest + 1 && read.iter().all(|&byte| byte == 2));
    // But not longer than the slice.
    let slice = region.remote().slice(0, 8).unwrap();
    let error = ends.a.post_send(wr::RdmaWrite::new(full(4), slice.write()).to(ends.to_b));
    assert!(error.is_err());
}

/// Lists of run-time length, prepared work requests, and chains of WRITEs.
/// Proves R27.2.
#[test]
fn every_way_to_post_takes_a_destination() {
    for seed in seeds().take(6) {
        let mut ends = Ends::new(seed);
        let region = ends.two.pd.register::<RemoteReadWrite>(64).unwrap();
        let part = |at, len| region.remote().slice(at, len).unwrap();
        let to = ends.to_b;
        ends.receives(4);
        let pool = &ends.one.pool;
        let mut slots = SendSlots::<4>::new();
        let mut list = ends.a.send_list(&mut slots);
        list.push(wr::Send::new(filled(pool, b"listed")).to(to)).unwrap();
        let imms =
            [1, 2].map(|i| wr::RdmaWriteWithImm::new(wr::Empty, part(0, 0).write(), i).to(to));
        list.extend(imms).unwrap();
        list.post().unwrap();
        post_send!(
            ends.a,
            [
                wr::RdmaRead::new(poisoned(pool), part(32, 8).read()).to(to),
                wr::RdmaWrite::new(filled(pool, b"one"), part(0, 3).write()).to(to),
                wr::RdmaWrite::inline(b"two", part(8, 3).write()).to(to),
            ]
        )
        .unwrap();
        let mut prepared =
            wr::RdmaWrite::new(wr::Placeholder, part(16, 8).write()).to(to).prepare();
        ends.a.post_prepared(&mut prepared, filled(pool, b"prepared")).unwrap();
        let mut beat = wr::Send::inline(b"beat").to(to).prepare();
        ends.a.post_prepared_inline(&mut beat).unwrap();
        assert_eq!(ends.sent(8).into_iter().map(Done::sent).count(), 8);
        let got = ends.arrived(4).into_iter().map(Done::received);
        let got: BTreeSet<_> = got.map(|got| (got.imm_data, got.data().to_vec())).collect();
        let expected: [(Option<u32>, &[u8]); 4] =
            [(None, b"listed"), (Some(1), b""), (Some(2), b""), (None, b"beat")];
        assert_eq!(got, expected.map(|(imm, bytes)| (imm, bytes.to_vec())).into());
        let mut there = [0; 8];
        for (at, bytes) in [(0, &b"one"[..]), (8, b"two"), (16, b"prepared")] {
            region.read_at(at, &mut there[..bytes.len()]).unwrap();
            assert_eq!(&there[..bytes.len()], bytes);
        }
    }
}

/// Lost messages are sent again, and none arrives twice; without an answer they fail.
/// Proves R27.11.
#[test]
fn lost_messages_are_sent_again() {
    let mut ends = Ends::new(8);
    let script = Script::seeded(1)
        .with(Fault::NoAnswer.nth(3).on_transport::<Srd>())
        .with(Fault::Lose.one_in(2).on_transport::<Srd>())
        .with(Fault::NotReady.one_in(2).on_transport::<Srd>());
    ends.one.dev.fabric.as_ref().unwrap().inject(script);
    ends.receives(8);
    for n in 0..8u8 {
        ends.a.post_send(wr::Send::new(filled(&ends.one.pool, &[n])).to(ends.to_b)).unwrap();
    }
    let lost = ends.sent(8).into_iter().filter_map(|done| match done {
        Done::Failed(failed) => Some((failed.error.status, failed.entry.unwrap()[0])),
        _ => None,
    });
    let lost: Vec<_> = lost.collect();
    let [(WcStatus::RespTimeout, missing)] = lost[..] else { panic!("{lost:?}") };
    let got = ends.arrived(7).into_iter().map(|done| done.received().data()[0]);
    let got: BTreeSet<u8> = got.collect();
    assert_eq!(got, (0..8).filter(|&n| n != missing).collect());
    assert_eq!(poll_empty(&mut ends.two.cq), 0);
}

/// SRD does not support solicited events: the device refuses, and the buffer comes back.
/// Proves R27.5.
#[test]
fn solicited_sends_are_refused() {
    let mut ends = Ends::new(11);
    let solicited = wr::Send::new(filled(&ends.one.pool, b"wake up")).solicited();
    let error = ends.a.post_send(solicited.to(ends.to_b)).unwrap_err();
    assert_eq!(error.kind(), proverbs::post::PostErrorKind::Refused { errno: libc::EINVAL });
    assert_eq!(error.into_rejected().count(), 1);
    assert_eq!(ends.a.sends_outstanding(), 0);
}

/// The transitions of SRD, up and down.
#[test]
fn srd_makes_its_transitions() {
    let end = End::on(&fabric(0));
    let qp = end.init().modify(UdReinit { pkey_index: Some(0), ..Default::default() }).unwrap();
    let qp = qp.modify(UdRtr { qkey: Some(key().into()), ..Default::default() }).unwrap();
    let other: QpQkey = Qkey::try_from(5).unwrap().into();
    let rts = SrdRts { qkey: Some(other), ..SrdRts::new(Psn::try_from(1).unwrap()) };
    let qp = qp.modify(rts).unwrap();
    assert_eq!(qp.query().unwrap().qkey, 5);
    let qp = qp.modify(UdReturn { qkey: Some(key().into()) }).unwrap();
    assert_eq!(qp.query().unwrap().qkey, KEY);
    let qp = qp.reset().unwrap();
    assert_eq!(qp.query().unwrap().state, Some(QpState::Reset));
    qp.destroy().unwrap();
}

/// The device reports in words what it lacks: SRD, or the other transports.
/// Proves R27.2, R27.7.
#[test]
fn a_device_without_srd_reports_it() {
    let fabric = Fabric::with(World::ipv4().personality(Device::personality()));
    let end = End::on(&fabric);
    let error = end.pd.create_qp::<Srd, Spread>(&end.cq, &end.cq, DEPTH).unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("efadv_create_qp_ex", Some(libc::EOPNOTSUPP)));
    let text = error.to_string();
    for words in
        ["SRD with max_send_wr 17", "does not support SRD", "needs an EFA", "ExtendedPosting<Srd>"]
    {
        assert!(text.contains(words), "{text}");
    }
    let efa = End::on(&self::fabric(0));
    let error = efa.pd.create_qp::<Rc, DefaultProfile>(&efa.cq, &efa.cq, DEPTH).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EOPNOTSUPP));
    assert!(end.way(&end).efa_number().is_err());
    // Without READs and WRITEs it is created for fewer operations.
    efa.reset::<Sending>();
    // As deep as possible, and no deeper; with its own inline capacity.
    let deep = Depth { send: 1 << 20, recv: 1 };
    let error = efa.pd.create_qp::<Srd, Spread>(&efa.cq, &efa.cq, deep).unwrap_err();
    assert!(error.to_string().contains("max_send_wr"), "{error}");
    profile! { Wide { posting: ExtendedPosting<Srd>, max_inline: 81 } }
    let error = efa.pd.create_qp::<Srd, Wide>(&efa.cq, &efa.cq, DEPTH).unwrap_err();
    assert!(error.to_string().contains("max_inline_data 81"), "{error}");
}

/// A queue pair that ends with work outstanding leaves no buffer behind.
/// Proves R27.3.
#[test]
fn outstanding_buffers_return() {
    for way in WAYS {
        let mut ends = Ends::new(9);
        for n in 0..4u8 {
            ends.a.post_send(wr::Send::new(filled(&ends.one.pool, &[n])).to(ends.to_b)).unwrap();
            ends.a.post_recv(wr::Recv::new(poisoned(&ends.one.pool))).unwrap();
        }
        let reset = end(way, ends.a, &mut [&mut ends.one.cq]);
        let mut deadline = ends.one.dev.deadline("all buffers are back");
        while ends.one.pool.available() != 64 {
            poll_empty(&mut ends.one.cq);
            ends.one.pool.reclaim(&mut ends.one.cq);
            deadline.tick(&());
        }
        drop((reset, ends.b));
    }
}

/// Entries of several kinds.
#[test]
fn shared_buffers_are_sent() {
    let fabric = fabric(4);
    let end = End::on(&fabric);
    let mut cq: CompletionQueue<AnyBuf> = end.dev.ctx.create_cq(100).unwrap();
    let up = || {
        let qp = end.pd.create_qp::<Srd, Any>(&cq, &cq, DEPTH).unwrap();
        let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: key().into() }).unwrap();
        let qp = qp.modify(UdRtr::default()).unwrap();
        qp.modify(SrdRts::new(Psn::try_from(0).unwrap())).unwrap()
    };
    let (mut a, mut b) = (up(), up());
    let to_b = to(a.add_address_handle(end.way(&end)).unwrap(), b.qp_num());
    let shared = filled(&end.pool, b"to many").freeze();
    for _ in 0..3 {
        b.post_recv(wr::Recv::new(poisoned(&end.pool))).unwrap();
        a.post_send(wr::Send::new(shared.clone()).to(to_b)).unwrap();
    }
    let done = poll(&end.dev, &mut cq, 6);
    let got = done.into_iter().filter_map(|done| match done {
        Done::Received(got) => got.entry,
        _ => None,
    });
    assert_eq!(got.count(), 3);
}
