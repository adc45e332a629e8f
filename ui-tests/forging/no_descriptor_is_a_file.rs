// Proves R13.1: safe code watches descriptors, and reads, writes or changes none.
// Enforced by lending them as numbers (`AsRawFd`, no `AsFd`): a reader of one would take an
// event that is then never acknowledged.
use std::os::fd::AsFd;

use proverbs::{cm, prelude::*};

fn read(channel: &CompletionChannel, events: &DeviceEvents, cm: &cm::EventChannel) {
    let _ = channel.as_fd().try_clone_to_owned();
    let _ = events.as_fd().try_clone_to_owned();
    let _ = cm.as_fd().try_clone_to_owned();
}

fn main() {}

// Safe code cannot clone, read, write or change the file descriptors.
