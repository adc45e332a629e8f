//! A replicated log: a leader writes it into the memory of three followers. No code runs at a
//! follower when entries arrive: the leader writes them with RDMA WRITE, and an entry is committed
//! when a majority of the four hosts has it. The leader notices a dead follower by the first WRITE
//! that is not acknowledged, and continues without it. The follower comes back with its old memory.
//! It reads the missing entries from the leader's log with RDMA READ, while the leader writes new
//! ones.
//!
//! ```text
//! log                 on the first RDMA device, or on the loopback device
//! log -d loopback     the leader and its followers in this process, each on its own device
//! ```
//! | file | contents |
//! |---|---|
//! | `entry` | the layout of the log |
//! | `leader` | batches, acknowledgements, the majority, and links that fail |
//! | `follower` | the memory that the leader writes to; dying and catching up |
//! Limits: there is no leader election, and the memory of a dead follower is in this process. The
//! endpoints are passed as values here. Between hosts, use `RcConnector::connect`, which exchanges
//! them over a stream.

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

/// The number of followers.
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

/// Parses a number that the log has room for, and that leaves some entries before a follower dies.
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

/// The first device. Returns `None` if this process cannot use any, and prints the reason.
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
    assert!(!leader.is_alive(1), "it did not acknowledge the WRITEs");
    println!("{} are committed by the others; follower 1 comes back", leader.committed());
    followers.insert(1, join(&mut leader, 1, open()?, memory)?);
    println!("it caught up with {} READs", followers[1].reads);

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

/// Creates a follower from `memory`, which is new or belonged to a dead follower, and lets it catch
/// up.
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
