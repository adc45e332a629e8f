//! `--device`: a machine that has an RDMA device needs no guest.

use std::ffi::OsStr;
use std::fs;
use std::io::{IsTerminal, stdin};

use anyhow::{Result, bail};

use super::guest;
use crate::sh::{self, Run};

/// Runs the command here with PROVERBS_DEVICE set, after seeing that the device exists.
pub fn run<S: AsRef<OsStr>>(device: &str, command: &[S]) -> Result<i32> {
    let entries = fs::read_dir("/sys/class/infiniband").into_iter().flatten().flatten();
    let mut known: Vec<_> = entries.filter_map(|it| it.file_name().into_string().ok()).collect();
    known.sort();
    if !known.iter().any(|name| name == device) {
        bail!(
            "this machine has no RDMA device {device}; it has: {}.\n\
             Next: leave --device out to use Soft-RoCE in a guest",
            known.join(", ")
        );
    }
    let sh = sh::here();
    let cmd = match command {
        [program, arguments @ ..] => sh.cmd(program.as_ref()).args(arguments),
        [] if stdin().is_terminal() => sh.cmd(guest::shell()),
        [] => bail!("{}", guest::NO_COMMAND),
    };
    cmd.env("PROVERBS_DEVICE", device).env("PROVERBS_GUEST_OUT", guest::out_dir()?).stream()
}
