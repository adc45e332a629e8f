//! `--device`: a machine that has an RDMA device needs no guest.

use std::fs;
use std::io::{IsTerminal, stdin};
use std::path::Path;

use anyhow::{Result, bail};

use super::guest;
use crate::sh::Cmd;

const DEVICES: &str = "/sys/class/infiniband";

/// Runs the command here with PROVERBS_DEVICE set, after seeing that the device exists.
pub fn run<S: AsRef<std::ffi::OsStr>>(device: &str, command: &[S]) -> Result<i32> {
    let known = devices();
    if !known.iter().any(|name| name == device) {
        let have = match known.as_slice() {
            [] => "it has none".to_owned(),
            names => format!("it has {}", names.join(", ")),
        };
        bail!(
            "this machine has no RDMA device {device}: {have}.\n\
             Next: leave --device out to use Soft-RoCE in a guest"
        );
    }
    let out = guest::out_dir()?;
    let cmd = match command {
        [program, arguments @ ..] => Cmd::new(program).args(arguments),
        [] if stdin().is_terminal() => Cmd::new(guest::shell()),
        [] => bail!("{}", guest::NO_COMMAND),
    };
    cmd.env("PROVERBS_DEVICE", device).env("PROVERBS_GUEST_OUT", out).stream()
}

fn devices() -> Vec<String> {
    let entries = fs::read_dir(Path::new(DEVICES)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
