//! `cargo xtask test guest --device`: a machine with an RDMA device does not need a guest.

use std::ffi::OsStr;

use anyhow::{Result, bail};

use super::guest;
use crate::paths;
use crate::sh::{self, Run};

/// Checks that the device exists, and runs the command here with PROVERBS_DEVICE set.
pub fn run<S: AsRef<OsStr>>(device: &str, command: &[S]) -> Result<i32> {
    let mut known: Vec<_> = paths::names("/sys/class/infiniband".as_ref()).collect();
    known.sort();
    if !known.iter().any(|name| name == device) {
        bail!(
            "this machine has no RDMA device {device}; it has: {}.\n\
             Next: leave --device out to use Soft-RoCE in a guest",
            known.join(", ")
        );
    }
    let [program, arguments @ ..] = command else { bail!("no command is given") };
    let cmd = sh::here().cmd(program.as_ref()).args(arguments);
    cmd.env("PROVERBS_DEVICE", device).env("PROVERBS_GUEST_OUT", guest::out_dir()?).stream()
}
