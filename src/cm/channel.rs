//! Event channels.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event::Event;
use super::id::CmId;
use super::space::PortSpace;
use super::state::{Created, OnChannel};
use crate::sys::absence::{self, Wanted};
use crate::sys::cm::Channel;
use crate::sys::wait::{Sleep, Waker, end_of, readiness_of};
use crate::terms::error::Error;

/// An event channel (`rdma_create_event_channel`): a file descriptor that is readable while an
/// event of one of its ids is pending. Only [`wait`](Self::wait),
/// [`wait_timeout`](Self::wait_timeout) and [`wait_or_woken`](Self::wait_or_woken) sleep until
/// then.
///
/// Threads can share a channel. Ids keep their channel alive, but if you drop the `EventChannel`
/// first, their events are lost. If ibacm(1) runs, [`resolve_route`](CmId::resolve_route) locks the
/// id's channel until ibacm has answered. Other calls on the channel and on its ids wait until
/// then.
///
/// Both ends of a connection, in one thread:
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::time::Duration;
///
/// /// Performs the step of `event`.
/// fn done<D, W, F>(step: Progress<D, W, F>) -> Result<D, proverbs::Error> {
///     match step {
///         Progress::Done(done) => Ok(done),
///         Progress::Failed(refused) => Err(refused.error),
///         Progress::Waiting(_) => panic!("an event of another id"),
///     }
/// }
///
/// # fn end<S: HasDevice, M: Mode>(id: &CmId<Tcp, S, M>) -> Result<QueuePair<Rc, Init>, proverbs::Error> {
/// #     let (pd, cq) = (id.pd()?, id.context()?.create_cq(32)?);
/// #     id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 8, recv: 8 })
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let second = Duration::from_secs(1);
/// let channel = EventChannel::new()?;
/// let listening = channel.create_id::<Tcp>()?.bind_addr("10.77.0.1:7471".parse()?)?.listen(8)?;
/// let id = channel.create_id::<Tcp>()?.resolve_addr("10.77.0.1:7471".parse()?, second)?;
/// // A program that waits for other descriptors too polls `channel.as_raw_fd()`, and then takes
/// // events with `channel.try_event()` until it returns `None`.
/// let id = done(id.advance(&channel.wait()?))?.resolve_route(second)?;
/// let id = done(id.advance(&channel.wait()?))?;
///
/// let qp = end(&id)?; // `create_qp`, and receives
/// let pending = id.connect(qp, &ConnParam::default())?;
/// let event = channel.wait_timeout(second)?.ok_or("no request")?;
/// assert_eq!((event.id(), event.kind()), (listening.key(), EventKind::ConnectRequest));
/// let request = listening.request(event).map_err(|event| format!("{event:?}"))?;
/// let qp = end(&request.id)?;
/// let accepted = request.accept(qp, &AcceptParam::default())?;
/// let a = done(pending.advance(&channel.wait()?))?;
/// let b = done(accepted.advance(&channel.wait()?))?;
/// # drop((a, b));
/// # Ok(())
/// # }
/// ```
#[doc(alias("rdma_cm_event", "rdma_event_channel"))]
#[derive(Clone)]
pub struct EventChannel {
    pub(crate) channel: Arc<Channel>,
}

impl EventChannel {
    /// Opens a channel (`rdma_create_event_channel`).
    ///
    /// # Errors
    /// - [`Absent`](crate::ErrorKind::Absent): the system does not have rdma_cm, or this process
    ///   may not use it or has too many open files.
    /// - [`Os`](crate::ErrorKind::Os): any other errno.
    #[doc(alias("rdma_create_event_channel", "rdma_destroy_event_channel"))]
    pub fn new() -> Result<Self, Error> {
        Channel::open().and_then(Channel::watched).map(EventChannel::of).map_err(unopened)
    }

    pub(super) fn of(channel: Channel) -> Self {
        EventChannel { channel: Arc::new(channel) }
    }

    /// Creates an id whose events are delivered to this channel (`rdma_create_id`).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_create_id`.
    #[doc(alias = "rdma_create_id")]
    pub fn create_id<PS: PortSpace>(&self) -> Result<CmId<PS, Created, OnChannel>, Error> {
        CmId::create(self.channel.clone())
    }

    /// Returns the next event, if one is pending (`rdma_get_cm_event`, `rdma_ack_cm_event`). Never
    /// waits for one.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # fn example(channel: EventChannel) -> Result<(), proverbs::Error> {
    /// // ... epoll_wait on `channel.as_raw_fd()` and other descriptors ...
    /// while let Some(event) = channel.try_event()? {
    ///     println!("{:?}: {:?}", event.id(), event.kind());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_get_cm_event`. It is not an error if no
    /// event is pending.
    pub fn try_event(&self) -> Result<Option<Event>, Error> {
        take(&self.channel)
    }

    /// Returns the next event. Waits **forever** if none comes.
    ///
    /// # Errors
    /// As for [`try_event`](Self::try_event), and [`Os`](crate::ErrorKind::Os) with the errno of
    /// poll(2).
    #[doc(alias("rdma_get_cm_event", "rdma_ack_cm_event"))]
    pub fn wait(&self) -> Result<Event, Error> {
        loop {
            // Without a deadline, the result is an event or an error.
            if let Some(event) = Events::until(&self.channel, None).next()? {
                return Ok(event);
            }
        }
    }

    /// Returns the next event, or `None` if none came within `timeout` (in steps of a millisecond,
    /// rounded up). If another thread waits for ibacm on this channel, this call waits too (see the
    /// type).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). A timeout is not an error.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<Event>, Error> {
        Events::until(&self.channel, end_of(Some(timeout))).next()
    }

    /// Returns a new file descriptor that is readable while the channel is (epoll(7)), for runtimes
    /// that need an [`AsFd`](std::os::fd::AsFd). Do not read from it; take events with
    /// [`try_event`](Self::try_event).
    ///
    /// # Errors
    /// - [`Absent`](crate::ErrorKind::Absent): the process has no file descriptors left.
    /// - [`Os`](crate::ErrorKind::Os): any other errno of epoll_create1(2) or epoll_ctl(2).
    ///
    /// ```
    /// use proverbs::{cm::EventChannel, loopback::Fabric};
    /// use std::os::fd::{AsFd, OwnedFd};
    /// let channel = EventChannel::on(&Fabric::new())?;
    /// let ready: OwnedFd = channel.readiness_fd()?;
    /// assert!(ready.as_fd().try_clone_to_owned().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn readiness_fd(&self) -> Result<OwnedFd, Error> {
        readiness_of(self.channel.fd())
    }

    /// Like [`wait_timeout`](Self::wait_timeout), but [`waker`](Waker::wake) ends the wait too,
    /// which returns `None`. If `timeout` is `None`, it waits **forever**.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). A timeout or a wake-up is not an error.
    ///
    /// ```
    /// use proverbs::{cm::EventChannel, completion::Waker, loopback::Fabric};
    /// let channel = EventChannel::on(&Fabric::new())?;
    /// let waker = Waker::new()?;
    /// waker.wake(); // before the sleep, or from another thread during it
    /// assert!(channel.wait_or_woken(&waker, None)?.is_none());
    /// # Ok::<(), proverbs::Error>(())
    /// ```
    pub fn wait_or_woken(
        &self,
        waker: &Waker,
        timeout: Option<Duration>,
    ) -> Result<Option<Event>, Error> {
        let sleep = Sleep::new(timeout, Some(waker));
        Events { sleep, ..Events::until(&self.channel, None) }.next()
    }
}

const OPEN: &str = "rdma_create_event_channel";

pub(super) fn open() -> Result<Arc<Channel>, Error> {
    Channel::open().map(Arc::new).map_err(unopened)
}

fn unopened(errno: c_int) -> Error {
    absence::error(OPEN, Wanted::Cm, errno, "")
}

/// Opens another channel of the same provider.
pub(super) fn another(channel: &Channel) -> Result<Arc<Channel>, Error> {
    channel.another().map(Arc::new).map_err(unopened)
}

fn take(channel: &Arc<Channel>) -> Result<Option<Event>, Error> {
    let taken = channel.take_event();
    let taken = taken.map_err(|errno| Error::os("rdma_get_cm_event", errno, ""))?;
    Ok(taken.map(|copied| {
        let event = Event { copied };
        crate::sys::event!(
            DEBUG,
            "proverbs::cm",
            "event",
            id = event.id().0,
            event = event.kind().name(),
            status = event.status(),
        );
        event
    }))
}

/// The events of a channel until a deadline, or until a waker is woken.
pub(super) struct Events<'w> {
    channel: Arc<Channel>,
    sleep: Sleep<'w>,
    /// How many events may still be taken after the deadline.
    late: u32,
}

/// Events that are pending already are taken even after the deadline. The limit prevents peers from
/// prolonging that.
const LATE: u32 = 64;

impl Events<'_> {
    // Not a call that waits: it stores a deadline.
    pub fn until(channel: &Arc<Channel>, deadline: Option<Instant>) -> Self {
        Events { channel: channel.clone(), sleep: Sleep::until(deadline, None), late: LATE }
    }

    /// Returns the next event, or `None` after the deadline or if the waker was woken.
    pub fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let is_late = self.sleep.is_over();
            if is_late {
                let Some(late) = self.late.checked_sub(1) else { return Ok(None) };
                self.late = late;
            }
            if let Some(event) = take(&self.channel)? {
                return Ok(Some(event));
            }
            if is_late || !self.sleep.on(self.channel.fd())? {
                return Ok(None);
            }
        }
    }
}

impl AsRawFd for EventChannel {
    /// The file descriptor, for poll(2), epoll(7) and event loops. It is readable while an event is
    /// pending, and never blocks. It is an epoll descriptor that watches rdma_cm's descriptor. This
    /// is because an id that [moves here](CmId::migrate_to) with pending events does not wake
    /// threads that sleep on rdma_cm's descriptor.
    ///
    /// It is a plain number: `EventChannel` does not implement `AsFd`, so that only `unsafe` code
    /// can change what the epoll descriptor watches. Take events with
    /// [`try_event`](EventChannel::try_event).
    fn as_raw_fd(&self) -> RawFd {
        self.channel.fd().as_raw_fd()
    }
}

impl_debug!(EventChannel, |_| "EventChannel");
