//! `ibv_fork_init`, in a process of its own: it is for a whole process, and comes first.
#![cfg(not(miri))]

use std::process::Command;

use proverbs::device::{ForkStatus, devices, fork_init, fork_status};
use proverbs::prelude::*;

#[test]
fn a_program_prepares_to_fork() {
    let before = fork_status();
    let status = fork_init().expect("no device was opened yet");
    assert_eq!(status, fork_status());
    let expected = match before {
        ForkStatus::Disabled => ForkStatus::Enabled,
        other => other,
    };
    assert_eq!(status, expected);
    // Asked again, also when a device is open, it says the same.
    let _context = devices().unwrap().first().map(|name| Context::open(name).unwrap());
    assert_eq!(fork_init().unwrap(), status);
    assert!(Command::new("true").status().unwrap().success());
}
