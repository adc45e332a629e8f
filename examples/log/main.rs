//! A replicated log: a leader writes it into the memory of three followers.
//!
//! Nothing runs at a follower while entries arrive: the leader writes them by RDMA WRITE, and an
//! entry is committed once a majority of the four has it. A follower that dies is noticed by the
//! first WRITE that nobody acknowledges, and the leader goes on without it. It comes back with the
//! memory that it had, and reads what it missed out of the leader's log by RDMA READ, while the
//! leader writes what comes next.
//!
//! ```text
//! log                 on the first RDMA device, or on the loopback device
//! log -d loopback     the leader and its followers in this process, each on a device of its own
//! ```
//!
//! | file | what |
//! |---|---|
//! | `entry` | what the bytes of the log mean |
//! | `leader` | batches, acknowledgements, the majority, and links that fail |
//! | `follower` | memory that is written to; dying and catching up |
//!
//! What it is not: nobody elects another leader, and the memory of a follower that died is that of
//! this process. The endpoints are handed over as values here; between hosts
//! `RcConnector::connect` exchanges them over a stream.

#![forbid(unsafe_code)]

mod entry;
mod follower;
mod leader;
#[path = "../patience/mod.rs"]
mod patience;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::process::ExitCode;

use bpaf::Bpaf;
use proverbs::device::LinkLayer;
use proverbs::{Context, devices, loopback::Fabric};

use follower::{Follower, Starting, blank};
use leader::Leader;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How many followers there are.
const FOLLOWERS: usize = 3;

/// A replicated log: a leader writes it into the memory of three followers
#[derive(Bpaf)]
#[bpaf(options)]
struct Args {
    /// RDMA device; "loopback" is a device in this process [default: the first one, or loopback]
    #[bpaf(short('d'), long("ib-dev"), env("PROVERBS_DEVICE"), argument("DEVICE"))]
    device: Option<String>,
    /// Index of the local GID [default: the RoCE v2 GID that routers forward]
    #[bpaf(short('g'), long("gid-idx"), env("PROVERBS_GID_INDEX"), argument("INDEX"))]
    gid_index: Option<u8>,
    /// Entries to append
    #[bpaf(short('n'), long, argument::<u64>("ENTRIES"), parse(entries), fallback(1000), display_fallback)]
    entries: u64,
}

/// As many as the log has room for, and some of them before a follower dies.
fn entries(count: u64) -> std::result::Result<u64, String> {
    let most = entry::MOST;
    let is_right = (10..=most).contains(&count);
    is_right.then_some(count).ok_or_else(|| format!("must be from 10 to {most}"))
}

fn main() -> ExitCode {
    match run(&args().run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("log: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The first device; none if this process can use none, and prints why.
fn first_device() -> Option<String> {
    let devices = devices().inspect_err(|why| println!("{why}"));
    Some(devices.ok()?.into_iter().next()?.name)
}

fn run(args: &Args) -> Result<()> {
    let name = match &args.device {
        Some(name) => Some(name.clone()).filter(|name| name != "loopback"),
        None => first_device(),
    };
    let fabric = Fabric::new();
    let open = || match &name {
        Some(name) => Context::open(name),
        None => Ok(fabric.open_device()),
    };
    println!("on {}", name.as_deref().unwrap_or("the loopback device"));

    let device = open()?;
    let gid_index = match args.gid_index {
        None if device.query_port(1)?.link_layer == LinkLayer::Ethernet => {
            Some(device.roce_v2_gid(1)?.index())
        }
        given => given,
    };
    let mut leader = Leader::new(device, gid_index)?;
    let mut followers = Vec::new();
    for place in 0..FOLLOWERS {
        followers.push(join(&mut leader, place, open()?, blank())?);
    }
    let text = |n: u64| format!("entry {n}").into_bytes();
    let (dies, back) = (args.entries * 3 / 10, args.entries * 7 / 10);

    (1..=dies).try_for_each(|n| leader.append(&text(n)))?;
    leader.commit()?;
    println!("{} entries are committed; follower 1 dies", leader.committed());
    let memory = followers.remove(1).die()?;

    (dies + 1..=back).try_for_each(|n| leader.append(&text(n)))?;
    leader.commit()?;
    assert!(!leader.is_alive(1), "nobody acknowledged what was written to it");
    println!("{} are committed by the others; follower 1 comes back", leader.committed());
    followers.insert(1, join(&mut leader, 1, open()?, memory)?);
    println!("it caught up by {} READs", followers[1].reads);

    (back + 1..=args.entries).try_for_each(|n| leader.append(&text(n)))?;
    leader.commit()?;
    leader.settle()?;
    for (place, follower) in followers.iter().enumerate() {
        assert_eq!(follower.committed()?, args.entries, "follower {place}");
        for n in 1..=args.entries {
            assert_eq!(follower.get(n)?, Some(text(n)), "entry {n} of follower {place}");
        }
    }
    println!("{} entries are committed, and in all three logs", leader.committed());
    Ok(())
}

/// Makes a follower of `memory`, new or of one that died, and has it catch up.
fn join(
    leader: &mut Leader,
    place: usize,
    context: Context,
    memory: follower::Memory,
) -> Result<Follower> {
    let starting = Starting::new(context, leader.gid_index(), memory)?;
    let (endpoint, from) = leader.join(place, starting.endpoint())?;
    let follower = starting.catch_up(&endpoint, from)?;
    leader.admit(place);
    Ok(follower)
}
