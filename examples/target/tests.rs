//! `cargo test --example target`. The tests of faults run both ends in one thread, so the order of
//! their steps is fixed.

use std::net::SocketAddr;
use std::time::Duration;

use proverbs::cm::EventChannel;
use proverbs::loopback::Fabric;
use proverbs::prelude::*;

use anyhow::{Context as _, Result};

use super::client::Client;
use super::poller::{Counts, Target};
use super::wire::{Answer, BLOCK, Put, Status, WINDOW, sum};

/// A fabric with the target on its first device, and another device for clients.
struct World {
    fabric: Fabric,
    target: Target,
    clients: Context,
    _target: Context,
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

impl World {
    fn new(room: usize) -> Result<World> {
        let fabric = Fabric::new();
        let (_target, clients) = (fabric.open_device(), fabric.open_device());
        let target = Target::new(EventChannel::on(&fabric)?, at("10.0.0.1:7177"), room, 64)?;
        Ok(World { fabric, target, clients, _target })
    }

    /// Lets the target process what there is.
    fn turns(&mut self) -> Result<()> {
        // Each turn takes one event and 256 completions.
        (0..16).try_for_each(|_| self.target.turn(Some(Duration::ZERO)).map(drop))
    }

    fn connect(&mut self) -> Result<Client> {
        let events = EventChannel::on(&self.fabric)?;
        let from = Some(at("10.0.0.2:0"));
        let client = Client::new(&events, from, at("10.0.0.1:7177"))?;
        self.turns()?;
        let client = client.finish()?;
        self.turns()?;
        Ok(client)
    }

    /// A whole PUT.
    fn put(&mut self, client: &mut Client, block: u32, bytes: &[u8]) -> Result<Status> {
        let tag = client.start(block, bytes)?;
        self.turns()?;
        let answer = client.answer()?;
        assert_eq!(answer.tag, tag);
        self.turns()?; // the target notices that the answer has arrived
        Ok(answer.status)
    }

    fn block(&self, block: usize) -> &[u8] {
        &self.target.store[block * BLOCK..][..BLOCK]
    }

    /// The target has ended this connection, and still serves another one.
    fn has_ended(&mut self, mut ended: Client, mut other: Client) -> Result<()> {
        assert!(ended.answer().is_err());
        assert_eq!(self.target.peers.len(), 1);
        assert_eq!(self.put(&mut other, 1, b"goes on")?, Status::Stored);
        assert!(self.block(1).starts_with(b"goes on"));
        assert_eq!(self.target.counts.broken, 1);
        Ok(())
    }
}

#[test]
fn a_block_is_read_checked_stored_and_answered() -> Result<()> {
    let mut world = World::new(2)?;
    let mut client = world.connect()?;
    let bytes: Vec<u8> = (0..BLOCK).map(|n| n as u8).collect();
    assert_eq!(world.put(&mut client, 63, &bytes)?, Status::Stored);
    assert_eq!(world.block(63), bytes);
    client.leave()?;
    world.turns()?;
    let counts = Counts { accepted: 1, left: 1, stored: 1, ..Counts::default() };
    assert_eq!((world.target.counts, world.target.peers.len()), (counts, 0));
    Ok(())
}

#[test]
fn a_request_that_cannot_be_served_is_answered() -> Result<()> {
    let mut world = World::new(1)?;
    let mut client = world.connect()?;
    let from = client.region.remote().slice(0, 8)?;
    let right = Put { tag: 7, block: 0, sum: sum(&[0; 8]), from };
    for (put, status) in [
        (Put { block: 64, ..right }, Status::NoBlock),
        (Put { from: from.slice(0, 0)?, ..right }, Status::WrongLength),
        (Put { from: client.region.remote(), ..right }, Status::WrongLength),
        (Put { sum: 1, ..right }, Status::WrongSum),
        (right, Status::Stored),
    ] {
        client.send(&put.to_wire())?;
        world.turns()?;
        assert_eq!(client.answer()?, Answer { tag: 7, status });
    }
    assert_eq!(world.target.counts.refused, 4);
    Ok(())
}

/// A turn takes one event, so it finds the message of the second client before its confirmation.
#[test]
fn a_request_before_the_confirmation_is_checked_too() -> Result<()> {
    let mut world = World::new(2)?;
    let mut requested = Vec::new();
    for _ in 0..2 {
        let events = EventChannel::on(&world.fabric)?;
        let from = Some(at("10.0.0.2:0"));
        requested.push(Client::new(&events, from, at("10.0.0.1:7177"))?);
    }
    world.turns()?;
    let mut clients = requested.into_iter().map(Client::finish).collect::<Result<Vec<_>>>()?;
    for client in &mut clients {
        client.start(64, b"no block")?;
    }
    world.turns()?;
    for client in &mut clients {
        assert_eq!(client.answer()?, Answer { tag: 0, status: Status::NoBlock });
    }
    Ok(())
}

#[test]
fn a_message_that_is_no_request_ends_its_connection() -> Result<()> {
    let mut world = World::new(2)?;
    let (mut wrong, other) = (world.connect()?, world.connect()?);
    wrong.send(b"hello")?;
    world.turns()?;
    world.has_ended(wrong, other)
}

#[test]
fn a_client_that_exceeds_its_window_is_disconnected() -> Result<()> {
    let mut world = World::new(2)?;
    let (mut wrong, other) = (world.connect()?, world.connect()?);
    // The target counts them all before it posts the first READ.
    for _ in 0..=WINDOW {
        // The send queue of the client has room for the window: its completions make more.
        while wrong.start(0, b"too many").is_err() {
            assert_eq!(wrong.look()?, None);
        }
    }
    world.turns()?;
    world.has_ended(wrong, other)
}

#[test]
fn a_wrong_key_ends_its_connection() -> Result<()> {
    let mut world = World::new(2)?;
    let (mut wrong, other) = (world.connect()?, world.connect()?);
    let mut wire = wrong.region.remote().slice(0, 8)?.to_bytes();
    wire[16..20].copy_from_slice(&0xdead_beef_u32.to_be_bytes());
    let from = RemoteSlice::from_bytes(&wire).context("the same rights")?;
    wrong.send(&Put { tag: 0, block: 0, sum: 0, from }.to_wire())?;
    world.turns()?;
    world.has_ended(wrong, other)
}

#[test]
fn a_client_that_disconnects_in_the_middle_leaves_the_others_alone() -> Result<()> {
    let mut world = World::new(2)?;
    let (mut gone, mut other) = (world.connect()?, world.connect()?);
    for block in 0..WINDOW as u32 {
        gone.start(block, &[1; BLOCK])?;
    }
    drop(gone);
    world.turns()?;
    assert_eq!(world.target.peers.len(), 1);
    assert_eq!(world.put(&mut other, 1, b"goes on")?, Status::Stored);
    // Its place is free.
    let mut third = world.connect()?;
    assert_eq!(world.put(&mut third, 2, b"comes")?, Status::Stored);
    Ok(())
}

#[test]
fn a_client_whose_device_dies_is_given_up() -> Result<()> {
    let mut world = World::new(2)?;
    let mut gone = world.connect()?;
    gone.start(0, &[1; BLOCK])?;
    assert!(world.fabric.remove_device(&world.clients));
    world.turns()?;
    assert_eq!(world.target.peers.len(), 0, "{:?}", world.target.counts);
    Ok(())
}

#[test]
fn a_connection_without_room_is_rejected_with_the_reason() -> Result<()> {
    let mut world = World::new(2)?;
    let (first, _second) = (world.connect()?, world.connect()?);
    let why = world.connect().err().context("there is no room")?.to_string();
    assert_eq!(why, "all 2 connections of the target are in use");
    first.leave()?;
    world.turns()?;
    world.connect()?;
    let counts = world.target.counts;
    assert_eq!((counts.accepted, counts.rejected), (3, 1));
    Ok(())
}

#[test]
fn the_waker_ends_it_after_the_answers() -> Result<()> {
    let mut world = World::new(1)?;
    let mut client = world.connect()?;
    let tag = client.start(5, b"the last one")?;
    // One turn receives the request and posts its READ. It is answered in a later one.
    world.target.turn(Some(Duration::ZERO))?;
    world.target.waker.wake();
    while world.target.turn(None)? {}
    assert_eq!(client.answer()?, Answer { tag, status: Status::Stored });
    assert!(client.answer().is_err(), "the target has disconnected");
    assert_eq!(world.target.peers.len(), 0);
    let why = world.connect().err().context("nobody listens")?.to_string();
    assert!(!why.contains("in use"), "{why}");
    Ok(())
}

#[test]
fn a_thousand_connections() -> Result<()> {
    const CONNECTIONS: u32 = 1000;
    let World { fabric, mut target, clients: _clients, _target } = World::new(1000)?;
    let waker = target.waker.clone();
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || -> Result<Target> {
            while target.turn(None)? {}
            Ok(target)
        });
        let used = || -> Result<()> {
            // One channel, because a channel of each client would take a thousand descriptors.
            let events = EventChannel::on(&fabric)?;
            let connect = || {
                let from = Some(at("10.0.0.2:0"));
                Client::new(&events, from, at("10.0.0.1:7177"))?.finish()
            };
            let mut clients: Vec<Client> =
                (0..CONNECTIONS).map(|_| connect()).collect::<Result<_>>()?;
            for round in 0..3u32 {
                for (n, client) in (0..).zip(&mut clients) {
                    client.start(n % 64, &(n + round).to_be_bytes())?;
                }
                for client in &mut clients {
                    assert_eq!(client.answer()?, Answer { tag: round, status: Status::Stored });
                }
            }
            Ok(())
        };
        let used = used();
        waker.wake();
        let target = serving.join().expect("it does not panic")?;
        used?;
        assert_eq!((target.counts.accepted, target.counts.stored), (1000, 3000));
        for block in 0..64 {
            let last =
                u32::from_be_bytes(*target.store[block * BLOCK..].first_chunk().expect("a block"));
            assert_eq!((last as usize - 2) % 64, block);
        }
        Ok(())
    })
}

#[test]
fn messages_travel() -> Result<()> {
    let from = RemoteSlice::from_parts(0x0102_0304_0506_0708, 64, 0x0a0b_0c0d);
    let put = Put { tag: 1, block: 2, sum: 3, from };
    let wire = put.to_wire();
    assert_eq!(Put::from_wire(&wire), Some(put));
    assert_eq!(Put::from_wire(&wire[1..]), None);
    for at in [0, wire.len() - 4] {
        let mut wrong = wire;
        wrong[at] ^= 0xff;
        assert_eq!(Put::from_wire(&wrong), None, "byte {at}");
    }
    for status in [Status::Stored, Status::NoBlock, Status::WrongLength, Status::WrongSum] {
        let answer = Answer { tag: 9, status };
        assert_eq!(Answer::from_wire(&answer.to_wire()), Some(answer));
    }
    assert_eq!(Answer::from_wire(&[0, 0, 0, 0, 0, 0, 0, 4]), None);
    Ok(())
}
