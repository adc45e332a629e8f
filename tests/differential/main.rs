//! The same random legal programs run on the loopback device and on a real one: statuses, bytes,
//! orders and counts must be the same, except for deviations that are listed by rule.
//!
//! `PROVERBS_DEVICE` names the real device. Without it there is a second loopback device, so that
//! the comparison itself is tested.
#![forbid(unsafe_code)]

#[allow(dead_code, unused_imports, unused_macros)] // Shared with the conformance suite.
#[path = "../conformance/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::process::ExitCode;

use bpaf::Bpaf;
use proverbs::completion::Direction;
use proverbs::loopback::Fabric;
use proverbs::prelude::*;
use proverbs::transport::Transport;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;
use support::*;

#[derive(Bpaf)]
#[bpaf(options)]
struct Options {
    /// Programs for each transport.
    #[bpaf(long, argument("PROGRAMS"), fallback(10), display_fallback)]
    programs: u64,
    /// The seed of the programs.
    #[bpaf(long, argument("SEED"), fallback(1), display_fallback)]
    seed: u64,
    /// Arguments that cargo gives to every test.
    #[bpaf(positional("REST"), many, hide)]
    _rest: Vec<String>,
}

/// The rule, the loopback device's result, and Soft-RoCE's result.
const KNOWN: [(&str, &str, &str); 2] =
    [("R3.7", "send: RemInvReq", "send: RemOp"), ("R10.16", "receive: LocLen", "receive: LocQpOp")];

const ROUNDS: usize = 12;
const REGION: u64 = 256;

fn main() -> ExitCode {
    let options = options().run();
    let mut known: BTreeMap<&str, u64> = BTreeMap::new();
    let mut events = 0;
    for program in 0..options.programs {
        let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(program);
        for (transport, run) in
            [("RC", rc as fn(Device, u64) -> Vec<String>), ("UC", uc), ("UD", ud)]
        {
            let here = run(Device::loopback(&Fabric::new()), seed);
            let there = run(Device::open(), seed);
            events += here.len();
            for at in 0..here.len().max(there.len()) {
                let none = String::new();
                let (a, b) = (here.get(at).unwrap_or(&none), there.get(at).unwrap_or(&none));
                if a == b {
                    continue;
                }
                match KNOWN.iter().find(|(_, x, y)| a == x && b == y) {
                    Some((rule, ..)) => *known.entry(rule).or_default() += 1,
                    None => {
                        println!("{transport}, program {seed}, event {at} differs:");
                        println!("  loopback: {a}\n  the other: {b}");
                        for event in here.iter().take(at).rev().take(8).rev() {
                            println!("  before: {event}");
                        }
                        println!("Next: --programs 1 and the seed {seed} / 1000003");
                        return ExitCode::FAILURE;
                    }
                }
            }
        }
    }
    println!("{} programs, {events} events, the same on both devices", options.programs * 3);
    for (rule, times) in known {
        println!("but for {rule}: {times} times");
    }
    ExitCode::SUCCESS
}

struct Dice(Pcg32);

impl Dice {
    fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(n)) >> 32) as u32
    }
}

/// Of every other program, the completion queues have a budget.
fn wish(seed: u64) -> Wish {
    let depth = Depth { send: 8, recv: 8 };
    Wish { depth, buffers: 24, size: 256, shares: seed % 2 == 0, ..Wish::new() }
}

fn digest(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{} bytes {sum:016x}", bytes.len())
}

fn event(done: Done<Buf>, log: &mut Vec<String>) {
    log.push(match done {
        Done::Sent(sent) => {
            let bytes = sent.entry.map_or_else(|| "nothing".into(), |buf| digest(&buf));
            format!("sent {:?}, {bytes}", sent.opcode)
        }
        Done::Received(got) => {
            let (opcode, imm) = (got.opcode, got.imm_data);
            format!("received {opcode:?}, {}, imm {imm:?}, {}", got.byte_len, digest(got.data()))
        }
        Done::Datagram(got) => {
            format!("datagram, imm {:?}, {}", got.imm_data, digest(got.payload()))
        }
        Done::Failed(failed) => {
            let what = if failed.direction == Direction::Send { "send" } else { "receive" };
            // Flushed requests behind it are reported only by number: a device may be late (R7.15).
            format!("{what}: {:?}", failed.error.status)
        }
    });
}

/// A message of 1 to 200 bytes.
fn message(dice: &mut Dice, pool: &Pool) -> Buf {
    let bytes = numbered(dice.below(250) as usize, 1 + dice.below(200) as usize);
    filled(pool, &bytes)
}

/// Programs for both RC and UC; `$fetch` posts the operations that only RC has.
macro_rules! connected {
    ($name:ident, $t:ident, $kinds:literal, |$p:ident, $dice:ident, $remote:ident, $kind:ident| $fetch:expr) => {
        fn $name(dev: Device, seed: u64) -> Vec<String> {
            let mut dice = Dice(Pcg32::seed_from_u64(seed));
            let mut log = Vec::new();
            let mut $p = Pair::<$t>::on(dev, &wish(seed));
            let region = $p.pd.register::<RemoteAll>(REGION as usize).unwrap();
            for _ in 0..ROUNDS {
                let n = 1 + dice.below(6) as usize;
                // The last message shows that those before it have arrived.
                let last = n - 1;
                let kinds: Vec<u32> =
                    (0..n).map(|i| if i == last { 1 } else { dice.below($kinds) }).collect();
                let receives = kinds.iter().filter(|&&kind| kind < 3).count();
                for _ in 0..receives {
                    $p.b.post_recv(wr::Recv::new(poisoned(&$p.pool))).unwrap();
                }
                for $kind in kinds {
                    let $dice = &mut dice;
                    let at = u64::from($dice.below(7)) * 8;
                    let $remote = region.remote().slice(at, REGION - at).unwrap();
                    let imm = $dice.below(1000);
                    match $kind {
                        0 => $p.a.post_send(wr::Send::new(message($dice, &$p.pool))),
                        1 => $p.a.post_send(wr::SendWithImm::inline(&[7; 9], imm)),
                        2 => {
                            let buf = message($dice, &$p.pool);
                            $p.a.post_send(wr::RdmaWriteWithImm::new(buf, $remote.write(), imm))
                        }
                        3 => $p.a.post_send(wr::RdmaWrite::new(
                            message($dice, &$p.pool),
                            $remote.write(),
                        )),
                        _ => $fetch,
                    }
                    .unwrap();
                }
                for done in poll(&$p.dev, &mut $p.ca, n) {
                    event(done, &mut log);
                }
                for done in poll(&$p.dev, &mut $p.cb, receives) {
                    event(done, &mut log);
                }
                let mut bytes = vec![0; REGION as usize];
                region.read_at(0, &mut bytes).unwrap();
                log.push(format!("region {}", digest(&bytes)));
                log.push(format!("rooms {} {}", $p.a.send_room(), $p.b.recv_room()));
                let booked = [&$p.ca, &$p.cb].map(|cq| cq.capacity() - cq.unbooked());
                log.push(format!("booked {booked:?}"));
            }
            finish(&mut $p, &mut dice, &mut log);
            let (a, b) = ($p.a.to_error().unwrap(), $p.b.to_error().unwrap());
            drop((a, b));
            let left = poll_empty(&mut $p.ca) + poll_empty(&mut $p.cb);
            let (ca, cb) = ($p.pool.reclaim(&mut $p.ca), $p.pool.reclaim(&mut $p.cb));
            log.push(format!("home {} of {}", $p.pool.available(), $p.pool.count()));
            let _ = (left, ca, cb);
            let booked = [&$p.ca, &$p.cb].map(|cq| cq.capacity() - cq.unbooked());
            log.push(format!("booked {booked:?} in the end"));
            log
        }
    };
}

connected!(rc, Rc, 7, |p, dice, remote, kind| {
    let mut buf = poisoned(&p.pool);
    buf.set_len(1 + dice.below(100) as usize);
    let cell = remote.atomic(0).unwrap();
    let (compare, swap) = (u64::from(dice.below(2)), u64::from(dice.below(99)));
    match kind {
        4 => {
            let from = remote.slice(0, buf.len() as u64).unwrap().read();
            p.a.post_send(wr::RdmaRead::new(buf, from))
        }
        5 => p.a.post_send(wr::FetchAndAdd::new(buf, cell, swap)),
        _ => p.a.post_send(wr::CmpAndSwp::new(buf, cell, wr::CompareSwap { compare, swap })),
    }
});

connected!(uc, Uc, 4, |p, dice, _remote, _kind| {
    let _ = dice.below(1);
    p.a.post_send(wr::Send::new(wr::Empty))
});

/// How a program ends.
trait Finish {
    fn finish(&mut self, dice: &mut Dice, log: &mut Vec<String>);
}

fn finish<T: Transport>(pair: &mut Pair<T>, dice: &mut Dice, log: &mut Vec<String>)
where
    Pair<T>: Finish,
{
    pair.finish(dice, log);
}

impl Finish for Pair<Rc> {
    /// With an error at the peer, and one send flushed behind it.
    fn finish(&mut self, dice: &mut Dice, log: &mut Vec<String>) {
        match dice.below(3) {
            0 => {
                let nowhere = RemoteSlice::<RemoteWrite>::from_parts(4096, 4096, 0xdead_0000);
                let bad = wr::RdmaWrite::new(message(dice, &self.pool), nowhere.write());
                post_send!(self.a, [bad, wr::Send::inline(&[1])]).unwrap();
            }
            1 => {
                // R3.7: the receive is shorter than the message.
                let pd = &self.pd;
                let small = pd.create_pool(1, 8).unwrap();
                self.b.post_recv(wr::Recv::new(small.take().unwrap())).unwrap();
                let long = filled(&self.pool, &numbered(3, 100));
                post_send!(self.a, [wr::Send::new(long), wr::Send::inline(&[1])]).unwrap();
                event(poll(&self.dev, &mut self.cb, 1).remove(0), log);
            }
            _ => return,
        }
        for done in poll(&self.dev, &mut self.ca, 2) {
            event(done, log);
        }
    }
}

impl Finish for Pair<Uc> {
    fn finish(&mut self, _: &mut Dice, _: &mut Vec<String>) {}
}

fn ud(dev: Device, seed: u64) -> Vec<String> {
    let mut dice = Dice(Pcg32::seed_from_u64(seed));
    let mut log = Vec::new();
    let mut p = Pair::<Ud>::on(dev, &wish(seed));
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    for _ in 0..ROUNDS {
        let n = 1 + dice.below(6) as usize;
        for _ in 0..n {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        }
        for _ in 0..n {
            let imm = dice.below(1000);
            match dice.below(3) {
                0 => p.a.post_send(wr::Send::new(message(&mut dice, &p.pool)).to(to)),
                1 => p.a.post_send(wr::SendWithImm::new(message(&mut dice, &p.pool), imm).to(to)),
                _ => p.a.post_send(wr::SendWithImm::inline(&[3; 20], imm).to(to)),
            }
            .unwrap();
        }
        for done in poll(&p.dev, &mut p.ca, n) {
            event(done, &mut log);
        }
        for done in poll(&p.dev, &mut p.cb, n) {
            event(done, &mut log);
        }
    }
    log.push(format!("home {} of {}", p.pool.available(), p.pool.count()));
    log
}
