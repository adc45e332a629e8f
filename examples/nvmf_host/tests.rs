//! `cargo test --example nvmf_host`: the host and the example `nvmf_target`, on the loopback
//! device.

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use proverbs::Context;
use proverbs::cm::{CmId, Tcp};
use proverbs::loopback::{Fabric, Fault, Personality, Script, World};
use proverbs::memory::MapOptions;

use crate::controller::{Controller, Wanted};
use crate::patience::patience;
use crate::queue::{Counts, Data, LONG};
use crate::target::{Config, Target, serve};
use crate::verify::{self, Plan};
use crate::wire::*;

const BYTES: usize = 8 << 20;
const AS_ASKED: Config = Config { verbose: false, never_invalidate: false, others_key: false };
const QUEUES: u16 = 3;

/// A file in memory of `BYTES` zeroes.
fn disk() -> File {
    MapOptions::new().memfd("disk", BYTES).expect("memory").1.into()
}

/// A target on its own device.
struct Running {
    device: Context,
    at: SocketAddr,
    thread: JoinHandle<()>,
}

impl Running {
    fn new(fabric: &Fabric, disk: File, config: Config) -> Result<Running> {
        let device = fabric.open_device();
        let ip = fabric.ip_of(&device).ok_or("no address")?;
        let id = CmId::<Tcp, _>::on(fabric)?.bind_addr(SocketAddr::new(ip, 0))?;
        let listening = id.listen(64)?;
        let at = listening.local_addr().ok_or("no address")?;
        let target = Arc::new(Target::new(NQN, disk)?);
        let thread = thread::spawn(move || {
            let ended = serve(&listening, &target, config);
            println!("the target ends: {:?}", ended.expect_err("a target serves until it fails"));
        });
        Ok(Running { device, at, thread })
    }

    /// Removes the device, which ends all connections and the target.
    fn kill(self, fabric: &Fabric) {
        assert!(fabric.remove_device(&self.device));
        self.thread.join().expect("no panic");
    }
}

fn routed(fabric: &Fabric, at: SocketAddr) -> Result<CmId<Tcp, proverbs::cm::RouteResolved>> {
    let id = CmId::<Tcp, _>::on(fabric)?.resolve_addr(at, patience(LONG))?;
    Ok(id.resolve_route(patience(LONG))?)
}

fn wanted(subsystem: &str, keep_alive: u32) -> Wanted {
    Wanted { subsystem: subsystem.to_owned(), depth: 8, size: 32 << 10, keep_alive }
}

fn plan(ios: u64, reconnects: u32) -> Plan {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = clock.as_nanos() as u64;
    println!("seed {seed}");
    Plan { wanted: wanted(NQN, 0), queues: QUEUES, ios, seed, reconnects }
}

/// Random reads and writes, as the sum of the counts of all queues.
fn ios(world: World, config: Config) -> Result<Counts> {
    let fabric = Fabric::with(world);
    let running = Running::new(&fabric, disk(), config)?;
    let (connections, counts) = verify::run(&|| routed(&fabric, running.at), &plan(300, 0))?;
    running.kill(&fabric);
    assert_eq!((connections, counts.len()), (1, QUEUES.into()));
    Ok(counts.into_iter().fold(Counts::default(), |sum, counts| Counts {
        commands: sum.commands + counts.commands,
        in_capsule: sum.in_capsule + counts.in_capsule,
        keyed: sum.keyed + counts.keyed,
        invalidated: sum.invalidated + counts.invalidated,
    }))
}

#[test]
fn every_key_is_invalidated_by_the_completion_of_its_command() -> Result<()> {
    let [ipv4, infiniband] = [World::ipv4(), World::infiniband()];
    for world in [
        ipv4.personality(Personality::Plain),
        ipv4.personality(Personality::Rxe),
        ipv4.personality(Personality::Mlx5),
        infiniband.personality(Personality::Mlx5),
        World::iwarp(),
    ] {
        println!("{world:?}");
        let counts = ios(world, AS_ASKED)?;
        assert_eq!(counts.commands, 301 * u64::from(QUEUES), "300 and Connect");
        assert_eq!(counts.in_capsule + counts.keyed, counts.commands);
        assert_eq!(counts.keyed, counts.invalidated);
        assert!(counts.in_capsule > 0 && counts.keyed > 0, "{counts:?}");
    }
    Ok(())
}

#[test]
fn a_target_need_not_invalidate_keys() -> Result<()> {
    let counts = ios(World::ipv4(), Config { never_invalidate: true, ..AS_ASKED })?;
    assert_eq!(counts.invalidated, 0);
    assert!(counts.keyed > 0);
    Ok(())
}

#[test]
fn a_target_rejects_what_it_does_not_have() -> Result<()> {
    let fabric = Fabric::new();
    let running = Running::new(&fabric, disk(), AS_ASKED)?;
    let route = || routed(&fabric, running.at);
    let refused = Controller::connect(&route, &wanted("nqn.other", 0)).map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "a command failed with status 0x4182");

    let mut controller = Controller::connect(&route, &wanted(NQN, 0))?;
    assert_eq!(controller.identity.blocks, BYTES as u64 / 512);
    let unsupported = controller.command(Command::new(0x7c, 0)).unwrap_err();
    assert_eq!(unsupported.to_string(), "a command failed with status 0x4001");

    let mut queue = controller.io_queues(1)?.remove(0);
    let blocks = controller.identity.blocks as u32;
    for (first, len, status) in
        [(0, 512, SUCCESS), (blocks, 512, LBA_OUT_OF_RANGE), (0, 1024, SGL_LENGTH_INVALID)]
    {
        let slot = queue.slot().ok_or("a free slot")?;
        queue.submit(slot, Command::new(READ, 1).with(10, first), Data::ToHost(len))?;
        assert_eq!(queue.next()?.status, status, "{len} bytes at {first}");
        queue.release(slot);
    }
    queue.close()?;
    controller.shut_down()?;
    running.kill(&fabric);
    Ok(())
}

/// The host reports the key of another command as the failure that it is.
#[test]
fn the_key_of_another_command_ends_the_connection() -> Result<()> {
    let fabric = Fabric::new();
    let running = Running::new(&fabric, disk(), Config { others_key: true, ..AS_ASKED })?;
    let ended = verify::run(&|| routed(&fabric, running.at), &plan(100_000, 0));
    println!("{}", ended.map(drop).expect_err("a wrong key"));
    running.kill(&fabric);
    Ok(())
}

/// Messages without a reply break connections. The host connects again, and the contents of the
/// namespace are as expected. Sometimes the target is killed too, and starts again with its file.
#[test]
fn a_host_connects_again_and_finds_its_data() -> Result<()> {
    for kills in [false, true] {
        let fabric = Fabric::new();
        let disk = disk();
        let running =
            std::sync::Mutex::new(Some(Running::new(&fabric, disk.try_clone()?, AS_ASKED)?));
        let routes = AtomicU32::new(0);
        let plan = plan(400, 1000);
        fabric.inject(Script::seeded(plan.seed).with(Fault::NoAnswer.one_in(500)));
        let route = || {
            let mut running = running.lock().expect("no panic");
            if kills && routes.fetch_add(1, Ordering::Relaxed) % 8 == 7 {
                running.take().ok_or("it runs")?.kill(&fabric);
                *running = Some(Running::new(&fabric, disk.try_clone()?, AS_ASKED)?);
            }
            let at = running.as_ref().ok_or("it runs")?.at;
            routed(&fabric, at)
        };
        let (connections, _) = verify::run(&route, &plan)?;
        assert!(connections > 1, "no connection broke");
        println!("{connections} connections");
        running.into_inner()?.ok_or("it runs")?.kill(&fabric);
    }
    Ok(())
}

#[test]
fn a_silent_host_is_disconnected() -> Result<()> {
    let fabric = Fabric::new();
    let running = Running::new(&fabric, disk(), AS_ASKED)?;
    let route = || routed(&fabric, running.at);
    let mut controller = Controller::connect(&route, &wanted(NQN, 50))?;
    let mut queue = controller.io_queues(1)?.remove(0);
    while !controller.admin.is_disconnected()? || !queue.is_disconnected()? {
        thread::yield_now();
    }
    assert!(controller.keep_alive().is_err());
    running.kill(&fabric);
    Ok(())
}
