//! Completion channels: sleeping until a completion queue has completions.

#![allow(unsafe_code)] // calls the event verbs

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::device::{Context, CqId};
use crate::sys::events::{set_blocking, try_get_cq_event};
use crate::sys::handle;
use crate::sys::refusal::{destroy, of_creation};
use crate::sys::wait::readiness_of;
use crate::terms::error::{Error, Refused};

/// A completion channel (`ibv_create_comp_channel`): a file descriptor that is readable while an
/// event of one of its completion queues is pending.
///
/// To sleep without losing a wake-up, arm the queue, then poll it, then sleep. A queue that is
/// armed after its last poll raises no event for completions that arrived in between
/// ([R13.3](crate::guide::rules#r13-3)). [`wait`](Self::wait) and its variants do this in the right
/// order. For your own event loop, use
/// [`CompletionQueue::poll_or_arm`](crate::CompletionQueue::poll_or_arm). Each event is
/// acknowledged when it is taken, so destroying a queue never hangs on an unacknowledged event
/// ([R13.1](crate::guide::rules#r13-1)).
///
/// Taking events requires `&mut`, so only one thread at a time uses a channel. Create one channel
/// for each thread that sleeps independently.
///
/// ```
/// use std::time::Duration;
///
/// # use proverbs::{loopback::Fabric, prelude::*};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = Fabric::new().open_device();
/// # let pd = context.alloc_pd()?;
/// let mut channel = context.create_comp_channel()?;
/// let mut cq: CompletionQueue = context.cq(16).channel(&channel).create()?;
/// // ... a queue pair on `cq`, with a receive posted ...
/// # let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
/// # let mut qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// # let pool = pd.create_pool(1, 64)?;
/// # qp.post_recv(wr::Recv::new(pool.take().expect("one buffer")))?;
/// let millisecond = Duration::from_millis(1);
/// assert_eq!(channel.wait_timeout(&mut cq, millisecond)?.count(), 0, "the peer sends nothing");
/// let qp = qp.to_error()?; // flushes the posted receive
/// for completion in channel.wait(&mut cq)? {
///     assert!(completion.status().is_err());
/// }
/// drop((qp, cq));
/// channel.destroy()?; // fails while a completion queue on it exists
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ibv_comp_channel")]
pub struct CompletionChannel {
    handle: Arc<handle::Channel>,
    /// Whether reading the descriptor blocks, as it does after a wait without a timeout.
    blocks: bool,
}

impl CompletionChannel {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let control = context.handle.control();
        // SAFETY: its handle keeps the context open.
        let channel = unsafe { (control.create_comp_channel)(context.handle.as_ptr()) };
        let refused = |errno| of_creation("ibv_create_comp_channel", errno, String::new());
        let channel = channel.map_err(refused)?;
        // SAFETY: the object was just created, and has no other owner.
        let handle = unsafe { handle::Channel::new(channel, control, context.handle.clone()) };
        Ok(CompletionChannel { handle: Arc::new(handle), blocks: false })
    }

    pub(crate) fn is_of(&self, context: &Context) -> bool {
        Arc::ptr_eq(self.handle.parents(), &context.handle)
    }

    pub(crate) fn handle(&self) -> &Arc<handle::Channel> {
        &self.handle
    }

    /// Takes and acknowledges one event if there is one, and returns the id of its queue
    /// (`ibv_get_cq_event`, `ibv_ack_cq_events`). It never sleeps.
    ///
    /// That queue is no longer armed, and may be empty ([R13.2](crate::guide::rules#r13-2),
    /// [R13.4](crate::guide::rules#r13-4)). Call
    /// [`poll_or_arm`](crate::CompletionQueue::poll_or_arm) next. `None` means that there was no
    /// event, which can happen even if the descriptor was readable. With edge-triggered
    /// notification, take events until `None`.
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `ibv_get_cq_event`: the device is gone. If a
    /// signal interrupts the call, the result is `None`.
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, prelude::*};
    /// use proverbs::completion::Notify;
    /// # fn main() -> Result<(), proverbs::Error> {
    /// # let context = Fabric::new().open_device();
    /// let mut channel = context.create_comp_channel()?;
    /// let mut cq: CompletionQueue = context.cq(16).channel(&channel).create()?;
    /// for _ in 0..3 { // an event loop
    ///     for completion in cq.poll_or_arm(Notify::Any)? {
    ///         println!("{completion:?}");
    ///     }
    ///     // ... epoll_wait on `channel.as_raw_fd()` and on other descriptors ...
    ///     while let Some(id) = channel.try_event()? {
    ///         assert_eq!(id, cq.id());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("ibv_get_cq_event", "ibv_ack_cq_events"))]
    pub fn try_event(&mut self) -> Result<Option<CqId>, Error> {
        self.set_blocking(false)?;
        match self.get_event() {
            Ok(context) => Ok(Some(CqId::from_context(context))),
            Err(libc::EAGAIN | libc::EINTR) => Ok(None),
            Err(errno) => Err(unreadable(errno)),
        }
    }

    /// Takes an event of any queue if there is one.
    #[inline(always)]
    pub(crate) fn take_event(&mut self) -> Result<(), Error> {
        self.try_event().map(drop)
    }

    /// Sleeps until there is an event, and takes it, in one system call. Returns false if reads
    /// from the device do not block; the caller then sleeps on the descriptor.
    #[inline(always)]
    pub(super) fn sleep_for_event(&mut self) -> Result<bool, Error> {
        self.set_blocking(true)?;
        match self.get_event() {
            Ok(_) | Err(libc::EINTR) => Ok(true),
            Err(libc::EAGAIN) => Ok(false),
            Err(errno) => Err(unreadable(errno)),
        }
    }

    /// Makes reads of the descriptor block or not. A program rarely changes how it waits, so most
    /// calls make no system call.
    #[inline(always)]
    pub(super) fn set_blocking(&mut self, blocks: bool) -> Result<(), Error> {
        #[cold]
        #[inline(never)]
        fn change(channel: &mut CompletionChannel, blocks: bool) -> Result<(), Error> {
            set_blocking(channel.fd(), blocks).map_err(|errno| Error::os("fcntl", errno, ""))?;
            channel.blocks = blocks;
            Ok(())
        }
        if self.blocks == blocks { Ok(()) } else { change(self, blocks) }
    }

    #[inline(always)]
    fn get_event(&mut self) -> Result<u64, i32> {
        // SAFETY: its handle keeps the channel, and has the functions of its provider.
        unsafe { try_get_cq_event(self.handle.control(), self.handle.as_ptr()) }
    }

    /// Returns a separate descriptor that is readable while this one is (epoll(7)), for runtimes
    /// that require [`AsFd`](std::os::fd::AsFd). It cannot be read from: take events with
    /// [`try_event`](Self::try_event).
    ///
    /// # Errors
    /// [`Absent`](crate::ErrorKind::Absent) if the process has no file descriptors left;
    /// [`Os`](crate::ErrorKind::Os) with any other errno of epoll_create1(2) or epoll_ctl(2).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use std::os::fd::{AsFd, OwnedFd};
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let channel = context.create_comp_channel()?;
    /// let ready: OwnedFd = channel.readiness_fd()?;
    /// assert!(ready.as_fd().try_clone_to_owned().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn readiness_fd(&self) -> Result<OwnedFd, Error> {
        readiness_of(self.fd())
    }

    /// Destroys the channel (`ibv_destroy_comp_channel`) and reports the error that a drop would
    /// ignore.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The channel, with [`Os`](crate::ErrorKind::Os): EBUSY while completion queues on it exist,
    /// or the errno of the verb.
    #[doc(alias = "ibv_destroy_comp_channel")]
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        let blocks = self.blocks;
        destroy("ibv_destroy_comp_channel", self.handle, "completion queues on it")
            .map_err(|refused| refused.map(|handle| CompletionChannel { handle, blocks }))
    }
}

#[cold]
fn unreadable(errno: i32) -> Error {
    Error::os("ibv_get_cq_event", errno, "")
}

impl AsRawFd for CompletionChannel {
    /// The descriptor, for poll(2), epoll(7) and event loops. It is readable while an event is
    /// pending. (Reading it blocks after a [wait](CompletionChannel::wait) without a timeout, and
    /// not otherwise; [`try_event`](CompletionChannel::try_event) never blocks.)
    ///
    /// There is no `AsFd`, so reading from the descriptor requires `unsafe`. An event that is read
    /// directly is never acknowledged, and `ibv_destroy_cq` then hangs forever
    /// ([R13.1](crate::guide::rules#r13-1)). Take events with
    /// [`try_event`](CompletionChannel::try_event).
    fn as_raw_fd(&self) -> RawFd {
        self.fd().as_raw_fd()
    }
}

impl CompletionChannel {
    /// The descriptor to sleep on.
    #[inline(always)]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: its handle keeps the channel, whose descriptor is open and never changes.
        unsafe { BorrowedFd::borrow_raw((*self.handle.as_ptr()).fd) }
    }
}

impl_debug!(CompletionChannel, |_| "CompletionChannel");
