//! Two hosts on an unreliable fabric: loss, delay, reordering, a peer that dies, a link that goes
//! down, a device that is removed.
//!
//! This is one end of one scenario. `cargo xtask two-hosts` runs all of them, in two Soft-RoCE
//! guests joined by a cable; `tests/two_hosts/host.sh` runs in each guest. By hand, on two machines
//! with RDMA devices:
//!
//! ```text
//! two_hosts --host 2 --peer ADDRESS-OF-1 rc-loss
//! two_hosts --host 1 --peer ADDRESS-OF-2 rc-loss
//! ```
//!
//! Host 1 listens for the control connection. The last line is `ok SCENARIO: figures`; otherwise
//! the exit code is not 0.

#![forbid(unsafe_code)]

mod content;
mod dead;
mod lossy;
#[path = "../patience/mod.rs"]
mod patience;
mod station;
mod talk;

use std::error::Error;
use std::process::ExitCode;
use std::str::FromStr;

use bpaf::Bpaf;

use station::Station;
use talk::Talk;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Bpaf)]
#[bpaf(options)]
struct Options {
    /// Which end this is: 1 sends and judges, 2 is its peer.
    #[bpaf(long, argument("HOST"), guard(|host| (1..=2).contains(host), "must be 1 or 2"))]
    host: u8,
    /// The other host's address.
    #[bpaf(long, argument("ADDRESS"))]
    peer: String,
    /// TCP port for the control connection.
    #[bpaf(long, argument("PORT"), fallback(18600), display_fallback)]
    port: u16,
    /// RDMA device.
    #[bpaf(long, env("PROVERBS_DEVICE"), argument("DEVICE"))]
    device: String,
    /// Index of the local GID.
    #[bpaf(long, env("PROVERBS_GID_INDEX"), argument("INDEX"), fallback(0), display_fallback)]
    gid_index: u8,
    /// The peer's network interface, for scenarios that take it down.
    #[bpaf(long, argument("NAME"), fallback("eth0".into()), display_fallback)]
    netdev: String,
    /// One of rc-loss, uc-loss, ud-loss, peer-killed, link-down, device-removed.
    #[bpaf(positional("SCENARIO"))]
    scenario: Scenario,
}

#[derive(Clone, Copy, PartialEq)]
enum Scenario {
    /// RC over a fabric that loses: every byte, in order.
    RcLoss,
    /// UC: messages are lost whole, without a report.
    UcLoss,
    /// UD: like UC.
    UdLoss,
    /// The peer is killed in mid-transfer.
    PeerKilled,
    /// The peer's link goes down in mid-transfer, and comes up again.
    LinkDown,
    /// The peer's device is removed in mid-transfer.
    DeviceRemoved,
}

/// The scenarios by their names.
const SCENARIOS: [(&str, Scenario); 6] = [
    ("rc-loss", Scenario::RcLoss),
    ("uc-loss", Scenario::UcLoss),
    ("ud-loss", Scenario::UdLoss),
    ("peer-killed", Scenario::PeerKilled),
    ("link-down", Scenario::LinkDown),
    ("device-removed", Scenario::DeviceRemoved),
];

impl FromStr for Scenario {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Scenario, &'static str> {
        let found = SCENARIOS.iter().find(|(name, _)| *name == text);
        found.map(|(_, scenario)| *scenario).ok_or("unknown scenario: --help lists them")
    }
}

fn main() -> ExitCode {
    let options = options().run();
    let is_run = |(_, scenario): &&(_, Scenario)| *scenario == options.scenario;
    let name = SCENARIOS.iter().find(is_run).map_or("", |(name, _)| name);
    match run(&options) {
        Ok(figures) => {
            println!("ok {name} on host {}: {figures}", options.host);
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("FAIL {name} on host {}: {error}", options.host);
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<String> {
    let mut talk = Talk::new(options.host, &options.peer, options.port)?;
    let mut station = Station::open(&options.device, options.gid_index)?;
    let netdev = &options.netdev;
    match (options.scenario, options.host) {
        (Scenario::RcLoss, 1) => lossy::rc::send(&mut station, &mut talk),
        (Scenario::RcLoss, _) => lossy::rc::receive(&mut station, &mut talk),
        (Scenario::UcLoss, 1) => lossy::uc::send(&mut station, &mut talk),
        (Scenario::UcLoss, _) => lossy::uc::receive(&mut station, &mut talk),
        (Scenario::UdLoss, 1) => lossy::ud::send(&mut station, &mut talk),
        (Scenario::UdLoss, _) => lossy::ud::receive(&mut station, &mut talk),
        (Scenario::PeerKilled, 1) => dead::notice(&mut station, &mut talk),
        (Scenario::PeerKilled, _) => dead::be_killed(&mut station, &mut talk),
        (Scenario::LinkDown, 1) => dead::notice_and_return(&mut station, talk, &options.peer),
        (Scenario::LinkDown, _) => dead::lose_the_link(&mut station, talk, netdev, &options.peer),
        (Scenario::DeviceRemoved, 1) => dead::notice_removal(&mut station, &mut talk),
        (Scenario::DeviceRemoved, _) => {
            dead::lose_the_device(&mut station, &mut talk, &options.device)
        }
    }
}
