//! Two guests on one cable: two real RoCE hosts, between which packets can be lost.

use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::thread;

use anyhow::{Result, anyhow};

use super::{Guest, Place, kernel, run_once, twice};
use crate::setup::{self, Group};

/// Boots two guests whose devices `rxe0` are connected through `eth0`, 10.77.0.1 and 10.77.0.2.
/// Runs one command in each, and returns their exit codes when both have powered off.
pub fn run<S: AsRef<OsStr> + Sync>(guest: &Guest, commands: [&[S]; 2]) -> Result<[i32; 2]> {
    // Done once here, before two threads would do it.
    setup::ensure(&[Group::Guest])?;
    kernel::ensure(&guest.kernel)?;
    twice(|| run_both(guest, commands))
}

fn run_both<S: AsRef<OsStr> + Sync>(guest: &Guest, commands: [&[S]; 2]) -> Result<[i32; 2]> {
    let (one, two) = UnixStream::pair()?;
    let [first, second] = commands;
    // QEMU dies with the thread that started it, so each has a thread that lives until the end.
    thread::scope(|scope| {
        let start = |host, end, command| {
            let place = Some(Place { host, end });
            scope.spawn(move || run_once(guest, command, place))
        };
        let hosts = [start(1, one, first), start(2, two, second)];
        let [one, two] = hosts.map(|host| match host.join() {
            Ok(result) => result,
            Err(_) => Err(anyhow!("the thread that watched a guest panicked")),
        });
        Ok([one?, two?])
    })
}
