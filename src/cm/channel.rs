//! Event channels.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event::Event;
use super::id::CmId;
use super::space::PortSpace;
use super::state::{Created, OnChannel};
use crate::error::Error;
use crate::sys::cm::Channel;

/// An event channel (`rdma_create_event_channel`): a descriptor that is readable while an event of one of
/// its ids waits. It never blocks a caller but in [`wait`](Self::wait).
///
/// It may be shared between threads. Ids keep their channel, so it may be dropped before them; their events
/// are then nobody's.
#[derive(Clone)]
pub struct EventChannel {
    pub(super) channel: Arc<Channel>,
}

impl EventChannel {
    /// Opens one. Fails where there is no rdma_cm (the kernel module is `rdma_ucm`).
    pub fn new() -> Result<Self, Error> {
        open().map(|channel| EventChannel { channel })
    }

    /// Creates an id whose events come here (`rdma_create_id`).
    pub fn create_id<PS: PortSpace>(&self) -> Result<CmId<PS, Created, OnChannel>, Error> {
        CmId::create(self.channel.clone())
    }

    /// The next event, if one is there.
    pub fn try_event(&self) -> Result<Option<Event>, Error> {
        take(&self.channel)
    }

    /// The next event; sleeps until there is one.
    pub fn wait(&self) -> Result<Event, Error> {
        next(&self.channel, None)
            .map(|event| event.expect("without a deadline there is an event or an error"))
    }

    /// The next event; `None` if none came within `timeout` (in steps of a millisecond, rounded up).
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<Event>, Error> {
        next(&self.channel, Instant::now().checked_add(timeout))
    }
}

pub(super) fn open() -> Result<Arc<Channel>, Error> {
    Channel::open().map(Arc::new).map_err(|errno| {
        let asked = "is the kernel module rdma_ucm loaded?";
        Error::os("rdma_create_event_channel", errno, asked)
    })
}

fn take(channel: &Arc<Channel>) -> Result<Option<Event>, Error> {
    let taken = channel.take_event();
    taken
        .map(|copied| copied.map(|copied| Event { copied }))
        .map_err(|errno| Error::os("rdma_get_cm_event", errno, ""))
}

/// The next event before `deadline`, if there is one.
pub(super) fn next(
    channel: &Arc<Channel>,
    deadline: Option<Instant>,
) -> Result<Option<Event>, Error> {
    loop {
        if let Some(event) = take(channel)? {
            return Ok(Some(event));
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(None);
        }
        crate::channel::sleep_on(channel.fd().as_raw_fd(), left)?;
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }
}

impl fmt::Debug for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventChannel")
    }
}
