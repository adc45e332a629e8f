//! The descriptors that the crate shows, so that event loops can watch them. They are numbers, with
//! which safe code can do nothing else. (A test that must not compile shows that they cannot be
//! cloned and read as files: `ui-tests/forging/no_descriptor_is_a_file.rs`.)

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use proverbs::prelude::*;

use crate::support::*;

/// Linux reopens descriptors by name. The result is another file or none, so using it does no harm.
#[test]
#[cfg_attr(miri, ignore = "Miri shows no files")]
fn a_descriptor_reopened_by_its_name() {
    let dev = Device::open();
    let mut channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = dev.ctx.cq(4).channel(&channel).create().unwrap();
    let mut events = dev.ctx.events().unwrap();
    for number in [channel.as_raw_fd(), events.as_raw_fd()] {
        let name = format!("/proc/self/fd/{number}");
        if let Ok(mut file) = OpenOptions::new().read(true).write(true).open(name) {
            let _ = file.write(&[0xff; 64]);
            let _ = file.read(&mut [0; 64]);
        }
    }
    let short = Duration::from_millis(1);
    assert!(channel.wait_timeout(&mut cq, short).unwrap().is_empty());
    let _ = events.wait_timeout(short).unwrap();
    cq.destroy().unwrap();
    channel.destroy().unwrap();
}

/// A number outlives the descriptor, and may then refer to another one.
#[test]
fn a_number_is_not_a_descriptor() {
    let dev = Device::loopback(&Device::fabric());
    let channel = dev.ctx.create_comp_channel().unwrap();
    let number = channel.as_raw_fd();
    channel.destroy().unwrap();
    let mut other = dev.ctx.create_comp_channel().unwrap();
    assert!(number >= 0 && other.try_event().unwrap().is_none());
}
