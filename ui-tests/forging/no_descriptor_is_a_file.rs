// R13.1, R16.12: descriptors are watched, and not read, written or changed by safe code: whoever reads one takes an event
// that nobody acknowledges.
// Enforced by lending them as numbers alone (`AsRawFd`).
use std::os::fd::AsFd;

use proverbs::*;

fn read(channel: &CompletionChannel, events: &DeviceEvents, cm: &cm::EventChannel) {
    let _ = channel.as_fd().try_clone_to_owned();
    let _ = events.as_fd().try_clone_to_owned();
    let _ = cm.as_fd().try_clone_to_owned();
}

fn main() {}
