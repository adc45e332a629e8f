//! `cargo test --example engine`. The engine and the targets run in their own threads. A test waits
//! for them through tickets and notices.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::{Context as _, Result};
use proverbs::cm::EventChannel;
use proverbs::loopback::{Fabric, Fault, Personality, Script, World as Machines};
use proverbs::prelude::*;

use super::batch::{Failure, Op, Operation, Peer, Reason, split};
use super::engine::{Engine, Notice, Settings};
use super::patience::patience;
use super::service::Service;
use super::{Memory, memory, register};

const DEVICES: usize = 2;
/// Bytes of the memory of each target, and of the engine's for each target.
const SHARE: usize = 4096;

/// An engine with two devices, and targets with a device each.
struct World {
    fabric: Fabric,
    engine: Engine,
    memory: Memory,
    spots: Vec<Spot>,
    devices: Vec<Context>,
}

/// A target, at an address that stays its own while it is away.
struct Spot {
    at: SocketAddr,
    memory: Memory,
    target: Option<Service>,
    peer: Peer,
    _device: Context,
}

/// The notices of the engine.
struct News {
    notices: Receiver<Notice>,
    /// The last notice of each peer on each device.
    is_up: HashMap<(Peer, usize), bool>,
}

impl News {
    /// Waits until the peer is up on all devices, or down on one.
    fn wait(&mut self, peer: Peer, is_up: bool) -> Result<()> {
        let is = |states: &HashMap<_, _>| {
            let state = |device| states.get(&(peer, device)).copied();
            match is_up {
                true => (0..DEVICES).all(|device| state(device) == Some(true)),
                false => (0..DEVICES).any(|device| state(device) == Some(false)),
            }
        };
        while !is(&self.is_up) {
            let (peer, device, state) =
                self.notices.recv_timeout(patience(Duration::from_secs(60)))?;
            self.is_up.insert((peer, device), state.is_ok());
        }
        Ok(())
    }
}

fn quick() -> Settings {
    let backoff = [Duration::from_millis(1), Duration::from_millis(20)];
    // Small, so that queue pairs and completion queues are often full.
    Settings { depth: 8, budget: 64, longest: 256, backoff, ..Settings::default() }
}

impl World {
    fn new(machines: Machines, targets: usize) -> Result<(World, News)> {
        let fabric = Fabric::with(machines);
        let devices: Vec<Context> = (0..DEVICES).map(|_| fabric.open_device()).collect();
        let from: Vec<_> = devices.iter().map(|device| fabric.ip_of(device).expect("it")).collect();
        let memory = memory(targets * SHARE);
        let (engine, notices) =
            Engine::new(quick(), &from, &|| EventChannel::on(&fabric), &|pd| {
                register(&memory, pd)
            })?;
        let mut world = World { fabric, engine, memory, spots: Vec::new(), devices };
        for _ in 0..targets {
            let device = world.fabric.open_device();
            let at = SocketAddr::new(world.fabric.ip_of(&device).context("an address")?, 7178);
            let memory = self::memory(SHARE);
            let target = Some(target(&world.fabric, at, &memory)?);
            let peer = world.engine.add_peer(&[at]);
            world.spots.push(Spot { at, memory, target, peer, _device: device });
        }
        Ok((world, News { notices, is_up: HashMap::new() }))
    }

    /// A batch of one operation for each device.
    fn ops(&self, spot: usize, operation: Operation) -> [Op; DEVICES] {
        ops(spot * SHARE, &self.spots[spot].memory, 0, SHARE, operation)
    }

    /// Writes the engine's share of the target to it, with new contents.
    fn write(&self, spot: usize, value: u64) -> Result<u64, Failure> {
        fill(&self.memory, spot * SHARE, SHARE, value);
        let ops = self.ops(spot, Operation::Write);
        self.engine.submit(self.spots[spot].peer, &ops).wait()
    }

    fn has(&self, spot: usize, value: u64) -> bool {
        holds(&self.spots[spot].memory, 0, SHARE, value)
    }
}

fn target(fabric: &Fabric, at: SocketAddr, memory: &Memory) -> Result<Service> {
    super::target(EventChannel::on(fabric)?, &[at], &|pd| register(memory, pd))
}

/// Two operations that copy `len` bytes between an offset of the engine and one of a target.
fn ops(
    local: usize,
    there: &Memory,
    offset: usize,
    len: usize,
    operation: Operation,
) -> [Op; DEVICES] {
    let (base, half) = (there.as_ptr().addr() + offset, len / 2);
    [0, half].map(|from| Op {
        operation,
        local: local + from,
        remote: (base + from) as u64,
        len: half,
    })
}

/// Fills bytes with words that all differ.
fn fill(memory: &Memory, offset: usize, len: usize, value: u64) {
    for (n, word) in memory[offset / 8..][..len / 8].iter().enumerate() {
        word.store((value << 16) + n as u64, Relaxed);
    }
}

fn holds(memory: &Memory, offset: usize, len: usize, value: u64) -> bool {
    let mut words = memory[offset / 8..][..len / 8].iter().enumerate();
    words.all(|(n, word)| word.load(Relaxed) == (value << 16) + n as u64)
}

/// 64 peers with four queue pairs each, and four threads that each submit to all of them.
#[test]
fn batches_from_four_threads_reach_64_peers() -> Result<()> {
    const PEERS: usize = 64;
    const PART: usize = SHARE / 4;
    // The batches do not wait for the connections: the engine does.
    let (world, _news) = World::new(Machines::ipv4(), PEERS)?;
    let value = |thread: usize, spot: usize| (1 + thread * PEERS + spot) as u64;
    let copy = |thread: usize, operation| -> Result<()> {
        let World { engine, spots, .. } = &world;
        let submit = |(n, spot): (usize, &Spot)| {
            let local = n * SHARE + thread * PART;
            let ops = ops(local, &spot.memory, thread * PART, PART, operation);
            engine.submit(spot.peer, &ops)
        };
        let tickets: Vec<_> = spots.iter().enumerate().map(submit).collect();
        for ticket in tickets {
            assert_eq!(ticket.wait()?, PART as u64);
        }
        Ok(())
    };
    let in_threads = |work: &(dyn Fn(usize) -> Result<()> + Sync)| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || work(n))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })
    };
    in_threads(&|thread| {
        for n in 0..PEERS {
            fill(&world.memory, n * SHARE + thread * PART, PART, value(thread, n));
        }
        copy(thread, Operation::Write)?;
        for (n, spot) in world.spots.iter().enumerate() {
            assert!(holds(&spot.memory, thread * PART, PART, value(thread, n)), "target {n}");
        }
        Ok(())
    })?;
    world.memory.iter().for_each(|word| word.store(0, Relaxed));
    in_threads(&|thread| {
        copy(thread, Operation::Read)?;
        for n in 0..PEERS {
            let local = n * SHARE + thread * PART;
            assert!(holds(&world.memory, local, PART, value(thread, n)), "peer {n}");
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn a_peer_is_killed_and_comes_back_while_the_others_go_on() -> Result<()> {
    let (mut world, mut news) = World::new(Machines::ipv4(), 4)?;
    for spot in 0..4 {
        world.write(spot, 1)?;
        assert!(world.has(spot, 1));
    }
    let Spot { at, peer, .. } = world.spots[1];
    news.wait(peer, true)?;
    let killed = world.spots[1].target.take();
    // The program that comes back has other memory.
    let there = memory(SHARE);
    let (world, is_over) = (&world, AtomicBool::new(false));
    let is_over = &is_over;
    let go_on = move |spot: usize| -> Result<u64> {
        let (mut rounds, peer) = (0, world.spots[spot].peer);
        let ops = world.ops(spot, Operation::Write);
        while rounds == 0 || !is_over.load(Relaxed) {
            world.engine.submit(peer, &ops).wait()?;
            rounds += 1;
        }
        Ok(rounds)
    };
    std::thread::scope(|scope| -> Result<()> {
        let others = [0, 2, 3].map(|spot| scope.spawn(move || go_on(spot)));
        let _over = Over(is_over);
        drop(killed);
        news.wait(peer, false)?;
        let failure = world.write(1, 2).err().context("the peer is down")?;
        assert_eq!(failure.peer, peer);
        assert!(!matches!(failure.reason, Reason::OutOfBounds(_) | Reason::Stopped), "{failure}");
        assert!(world.has(1, 1), "nothing was written");

        let _target = target(&world.fabric, at, &there)?;
        news.wait(peer, true)?; // the engine connects by itself
        fill(&world.memory, SHARE, SHARE, 3);
        let ops = ops(SHARE, &there, 0, SHARE, Operation::Write);
        assert_eq!(world.engine.submit(peer, &ops).wait()?, SHARE as u64);
        assert!(holds(&there, 0, SHARE, 3));
        is_over.store(true, Relaxed);
        for other in others {
            assert!(other.join().expect("no panic")? > 0);
        }
        Ok(())
    })
}

/// Ends the threads of a test, even if it fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The device reports a failed WRITE. Only the batch of this peer fails, and it is connected again.
#[test]
fn a_queue_pair_that_fails_is_connected_again() -> Result<()> {
    let (world, mut news) = World::new(Machines::ipv4(), 2)?;
    let peer = world.spots[0].peer;
    for spot in &world.spots {
        news.wait(spot.peer, true)?;
    }
    world.fabric.inject(Script::default().with(Fault::NoAnswer.nth(1)));
    let failure = world.write(0, 1).err().context("one WRITE has no answer")?;
    assert_eq!(failure.peer, peer);
    let Reason::Status(error) = failure.reason else { panic!("{failure}") };
    assert_eq!(error.status, WcStatus::RetryExc);
    world.write(1, 1)?;
    news.wait(peer, false)?;
    news.wait(peer, true)?;
    world.write(0, 2)?;
    assert!(world.has(0, 2) && world.has(1, 1));
    Ok(())
}

#[test]
fn an_operation_out_of_range_fails_only_its_batch() -> Result<()> {
    let (world, mut news) = World::new(Machines::ipv4(), 1)?;
    let peer = world.spots[0].peer;
    news.wait(peer, true)?;
    fill(&world.memory, 0, SHARE, 1);
    let right = world.ops(0, Operation::Write);
    let [first, second] = right;
    let wrong = [
        Op { remote: first.remote + SHARE as u64, ..first },
        Op { remote: first.remote - 8, ..first },
        Op { remote: u64::MAX, ..first },
        Op { local: SHARE, ..first },
        Op { local: usize::MAX, ..first },
    ];
    let tickets = wrong.map(|wrong| {
        [&[wrong][..], &right, &[second, wrong]].map(|ops| world.engine.submit(peer, ops))
    });
    for [wrong, right, mixed] in tickets {
        for ticket in [wrong, mixed] {
            let failure = ticket.wait().err().context("it exceeds the memory")?;
            assert_eq!(failure.peer, peer);
            assert!(matches!(failure.reason, Reason::OutOfBounds(_)), "{failure}");
        }
        assert_eq!(right.wait()?, SHARE as u64);
    }
    assert!(world.has(0, 1));
    assert!(news.notices.try_recv().is_err(), "the peer stays connected");
    Ok(())
}

/// No peer answers, so all batches are outstanding when the engine ends.
#[test]
fn batches_that_are_outstanding_at_the_end_fail() -> Result<()> {
    let (world, mut news) = World::new(Machines::ipv4(), 2)?;
    for spot in &world.spots {
        news.wait(spot.peer, true)?;
    }
    world.fabric.stop_clock();
    world.fabric.inject(Script::default().with(Fault::NoAnswer.always()));
    let submit = |n: usize| {
        let ops = world.ops(n % 2, Operation::Read);
        world.engine.submit(world.spots[n % 2].peer, &ops)
    };
    let tickets: Vec<_> = (0..100).map(submit).collect();
    drop(world.engine);
    for ticket in tickets {
        let failure = ticket.wait().err().context("it cannot have ended")?;
        assert!(matches!(failure.reason, Reason::Stopped), "{failure}");
    }
    Ok(())
}

#[test]
fn a_peer_that_is_late_is_connected_when_it_comes() -> Result<()> {
    let (world, mut news) = World::new(Machines::ipv4(), 1)?;
    let device = world.fabric.open_device();
    let at = SocketAddr::new(world.fabric.ip_of(&device).context("an address")?, 7178);
    let there = memory(SHARE);
    let peer = world.engine.add_peer(&[at]);
    let ops = ops(0, &there, 0, SHARE, Operation::Read);
    let failure = world.engine.submit(peer, &ops).wait().err().context("no target listens")?;
    assert!(matches!(failure.reason, Reason::Down(_)), "{failure}");
    let _target = target(&world.fabric, at, &there)?;
    news.wait(peer, true)?;
    fill(&there, 0, SHARE, 1);
    assert_eq!(world.engine.submit(peer, &ops).wait()?, SHARE as u64);
    assert!(holds(&world.memory, 0, SHARE, 1));
    Ok(())
}

/// A driver is unloaded. The batches fail, because each has parts on both devices.
#[test]
fn a_device_that_is_removed_fails_its_batches() -> Result<()> {
    let (world, mut news) = World::new(Machines::ipv4(), 1)?;
    let peer = world.spots[0].peer;
    news.wait(peer, true)?;
    assert!(world.fabric.remove_device(&world.devices[0]));
    news.wait(peer, false)?;
    let failure = world.write(0, 1).err().context("a device is gone")?;
    assert_eq!(failure.peer, peer);
    assert!(matches!(failure.reason, Reason::Down(_)), "{failure}");
    Ok(())
}

/// Devices that grant other depths, complete and flush in other orders, and have other addresses.
#[test]
fn it_works_on_other_devices() -> Result<()> {
    for seed in 0..8 {
        for machines in [Machines::ipv4(), Machines::ipv6(), Machines::infiniband()] {
            let machines = machines.personality(Personality::worst(seed));
            let (world, mut news) = World::new(machines, 2)?;
            for spot in 0..2 {
                world.write(spot, 1)?;
                assert!(world.has(spot, 1), "seed {seed}");
                fill(&world.memory, spot * SHARE, SHARE, 2);
                let ops = world.ops(spot, Operation::Read);
                world.engine.submit(world.spots[spot].peer, &ops).wait()?;
                assert!(holds(&world.memory, spot * SHARE, SHARE, 1), "seed {seed}");
            }
            let peer = world.spots[0].peer;
            news.wait(peer, true)?;
            world.fabric.inject(Script::seeded(seed).with(Fault::NoAnswer.nth(3)));
            assert!(world.write(0, 3).is_err(), "seed {seed}");
            news.wait(peer, false)?;
            news.wait(peer, true)?;
            world.write(0, 4)?;
            assert!(world.has(0, 4), "seed {seed}");
        }
    }
    Ok(())
}

#[test]
fn a_batch_has_the_first_failure_of_its_parts() {
    let op = Op { operation: Operation::Write, local: 8, remote: 16, len: 20 };
    let (ticket, shares) = split(Peer(3), &[op, op], 8, 2);
    let places = [[(0, 8), (16, 4), (8, 8)], [(8, 8), (0, 8), (16, 4)]];
    for (share, places) in shares.into_iter().zip(places) {
        assert_eq!(share.iter().map(|part| (part.from, part.len)).collect::<Vec<_>>(), places);
        share.into_iter().for_each(|part| part.finish(Ok(())));
    }
    assert_eq!(ticket.wait().expect("no part failed"), 40);

    let (ticket, mut shares) = split(Peer(3), &[op], 8, 1);
    shares[0].remove(1).finish(Err(Reason::Down("it is off".into())));
    drop(shares); // their engine has ended
    let failure = ticket.wait().expect_err("one part failed");
    assert_eq!(failure.to_string(), "peer 3 is not connected: it is off");

    let (ticket, shares) = split(Peer(3), &[op], 8, 1);
    drop(shares);
    let failure = ticket.wait().expect_err("no part ended");
    assert_eq!(failure.to_string(), "peer 3: the engine has ended");
    assert_eq!(split(Peer(3), &[], 8, 2).0.wait().expect("nothing to do"), 0);
}
