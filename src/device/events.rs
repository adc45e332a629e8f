//! Asynchronous events of a device: changes of queue pairs, queues and ports that are not reported
//! by a completion.

// No model: one set is read and changed only under its lock, and no other lock is taken then.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::device::{Context, DeviceEvent};
use crate::sys::absence::{self, Wanted};
use crate::sys::handle;
use crate::sys::wait::{Sleep, Waker, readiness_of};
use crate::terms::error::Error;

/// The asynchronous events of an open device (`ibv_get_async_event`).
///
/// Each event is acknowledged when it is taken (`ibv_ack_async_event`), and contains no pointer. So
/// a leaked event cannot hang the destruction of its object ([R13.1](crate::guide::rules#r13-1)),
/// and an event of a destroyed object contains only a number that is not reused. If an object is
/// destroyed, its unread events are dropped.
///
/// An open device can have one reader, which receives each event once
/// ([R13.10](crate::guide::rules#r13-10)).
///
/// ```
/// # use proverbs::{loopback::Fabric, prelude::*};
/// # fn main() -> Result<(), proverbs::Error> {
/// # let context = Fabric::new().open_device();
/// let mut events = context.events()?;
/// while let Some(event) = events.try_next()? {
///     println!("{event}");
/// }
/// assert!(context.events().is_err(), "one reader");
///
/// let millisecond = std::time::Duration::from_millis(1);
/// assert_eq!(events.wait_timeout(millisecond)?, None, "nothing happens to the device");
/// # Ok(())
/// # }
/// ```
pub struct DeviceEvents {
    fd: RawFd,
    context: Arc<handle::Context>,
}

/// The addresses of contexts that have a reader. A reader keeps its context alive, so an address
/// identifies one context.
static READ: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn read() -> MutexGuard<'static, BTreeSet<usize>> {
    READ.lock().unwrap_or_else(PoisonError::into_inner)
}

const VERB: &str = "ibv_get_async_event";

impl Context {
    /// Returns the reader of this device's asynchronous events. There can be one at a time
    /// ([R13.10](crate::guide::rules#r13-10)).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os): EBUSY while another [`DeviceEvents`] of this open device
    /// exists, or the errno of the device. [`Absent`](crate::ErrorKind::Absent): the process has no
    /// file descriptors left.
    pub fn events(&self) -> Result<DeviceEvents, Error> {
        let context = self.handle.clone();
        let async_fd = context.control().async_fd;
        #[allow(unsafe_code)] // one verb
        // SAFETY: its handle keeps the context open.
        let fd = unsafe { async_fd(context.as_ptr()) };
        let fd = fd.map_err(|errno| absence::error(VERB, Wanted::Any, errno, ""))?;
        if !read().insert(context.as_ptr().addr()) {
            let asked = "another `DeviceEvents` of this open device exists";
            return Err(Error::os(VERB, libc::EBUSY, asked));
        }
        Ok(DeviceEvents { fd, context })
    }
}

impl DeviceEvents {
    /// Returns the next event, if there is one; never sleeps (`ibv_get_async_event`).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `ibv_get_async_event`: the device is gone. If
    /// a signal interrupts the call, the result is `None`.
    pub fn try_next(&mut self) -> Result<Option<DeviceEvent>, Error> {
        let get = self.context.control().try_get_async_event;
        #[allow(unsafe_code)] // one verb
        // SAFETY: its handle keeps the context open.
        let event = unsafe { get(self.context.as_ptr()) };
        match event {
            Ok(event) => {
                let event = DeviceEvent::from_c(event.event_type, event.affiliate);
                crate::sys::event!(
                    INFO, "proverbs::device", "event",
                    context = ?self.context.ptr(), event = %event,
                );
                Ok(Some(event))
            }
            Err(libc::EAGAIN | libc::EINTR) => Ok(None),
            Err(errno) => Err(Error::os(VERB, errno, "")),
        }
    }

    /// Sleeps until there is an event (`ibv_get_async_event`); waits **forever** if there is none.
    ///
    /// # Errors
    /// As for [`try_next`](Self::try_next), and [`Os`](crate::ErrorKind::Os) with the errno of
    /// poll(2).
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, prelude::*};
    /// use proverbs::device::{DeviceEvent, QpEvent};
    /// # fn main() -> Result<(), proverbs::Error> {
    /// # let context = Fabric::new().open_device();
    /// # let pd = context.alloc_pd()?;
    /// # let pool = pd.create_pool(1, 64)?;
    /// # let cq: CompletionQueue = context.create_cq(16)?;
    /// # let srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    /// # profile! { OnSrq { receive: SharedRq } }
    /// # let qp = pd.create_qp::<Rc, OnSrq>(&cq, &cq, Depth::on_srq(2, &srq))?;
    /// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    /// let mut events = context.events()?;
    /// // ... `qp` receives from a shared receive queue. Not every device reports this (R13.11): on
    /// // Soft-RoCE use `wait_timeout` ...
    /// let qp = qp.to_error()?;
    /// let mine = qp.qp_num();
    /// loop {
    ///     match events.wait()? {
    ///         DeviceEvent::Qp { qp_num, event: QpEvent::LastWqeReached } if qp_num == mine => break,
    ///         other => println!("{other}"),
    ///     }
    /// }
    /// qp.destroy()?; // loses no receive
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("ibv_get_async_event", "ibv_ack_async_event"))]
    pub fn wait(&mut self) -> Result<DeviceEvent, Error> {
        loop {
            // Without a time limit it returns an event or an error.
            if let Some(event) = self.next_before(Sleep::new(None, None))? {
                return Ok(event);
            }
        }
    }

    /// Like [`wait`](Self::wait), but waits for at most `timeout`, rounded up to milliseconds.
    /// Returns `None` after a timeout.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). A timeout is not an error.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<DeviceEvent>, Error> {
        self.next_before(Sleep::new(Some(timeout), None))
    }

    /// Like [`wait_timeout`](Self::wait_timeout), but a [`waker`](Waker::wake) can end the wait
    /// early. If `timeout` is `None`, it may wait **forever**. Returns `None` after a wake or a
    /// timeout.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). Neither a timeout nor being woken is an error.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::completion::Waker;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let (mut events, waker) = (context.events()?, Waker::new()?);
    /// waker.wake(); // before the sleep, or from another thread during it
    /// assert_eq!(events.wait_or_woken(&waker, None)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_or_woken(
        &mut self,
        waker: &Waker,
        timeout: Option<Duration>,
    ) -> Result<Option<DeviceEvent>, Error> {
        self.next_before(Sleep::new(timeout, Some(waker)))
    }

    /// Returns a separate descriptor that is readable while this one is (epoll(7)), for runtimes
    /// that require [`AsFd`](std::os::fd::AsFd). It cannot be read from: take events with
    /// [`try_next`](Self::try_next).
    ///
    /// # Errors
    /// [`Absent`](crate::ErrorKind::Absent) if the process has no file descriptors left;
    /// [`Os`](crate::ErrorKind::Os) with any other errno of epoll_create1(2) or epoll_ctl(2).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use std::os::fd::{AsFd, OwnedFd};
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let events = context.events()?;
    /// let ready: OwnedFd = events.readiness_fd()?;
    /// assert!(ready.as_fd().try_clone_to_owned().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn readiness_fd(&self) -> Result<OwnedFd, Error> {
        readiness_of(self.fd())
    }

    /// The descriptor to sleep on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        #[allow(unsafe_code)] // a descriptor of the context
        // SAFETY: it belongs to the context, which stays open, and never changes. (`events` returns
        // no value without it.)
        unsafe {
            BorrowedFd::borrow_raw(self.fd)
        }
    }

    /// The next event; `None` if the sleep ended first.
    fn next_before(&mut self, mut sleep: Sleep<'_>) -> Result<Option<DeviceEvent>, Error> {
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            if !sleep.on(self.fd())? {
                return Ok(None);
            }
        }
    }
}

impl Drop for DeviceEvents {
    fn drop(&mut self) {
        read().remove(&self.context.as_ptr().addr());
    }
}

impl AsRawFd for DeviceEvents {
    /// The descriptor, for poll(2), epoll(7) and event loops. It is readable while an event is
    /// pending, and never blocks.
    ///
    /// There is no `AsFd`, so reading from the descriptor requires `unsafe`. An event that is read
    /// directly is never acknowledged, and the destruction of its object then hangs forever
    /// ([R13.1](crate::guide::rules#r13-1)).
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl_debug!(DeviceEvents, |_| "DeviceEvents");
