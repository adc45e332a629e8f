// R13.1, ibv_get_cq_event(3): the legal twin of the test of this name.
use std::os::fd::{AsRawFd, RawFd};

use proverbs::{cm, prelude::*};

fn watch(channel: &CompletionChannel, events: &DeviceEvents, cm: &cm::EventChannel) -> [RawFd; 3] {
    [channel.as_raw_fd(), events.as_raw_fd(), cm.as_raw_fd()]
}
