//! Awaiting asynchronous events on tokio.

#![allow(unsafe_code)] // one descriptor that outlives its registration

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;

use crate::device::{DeviceEvent, DeviceEvents};
use crate::terms::error::{Error, Refused};
use crate::wait::{Turns, not_registered};

/// The asynchronous events of an open device, for use in a tokio runtime (feature `tokio`).
///
/// ```
/// # use proverbs::{loopback::Fabric, prelude::*};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// # let context = Fabric::new().open_device();
/// let mut events = context.events()?.into_async()?;
/// tokio::select! {
///     event = events.next() => println!("{}", event?),
///     _ = async { /* the work */ } => {}
/// }
/// let events = events.into_inner(); // to sleep without a runtime, or in another one
/// # drop(events);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncDeviceEvents {
    fd: AsyncFd<DeviceEvents>,
    turns: Turns,
}

impl DeviceEvents {
    /// Registers the events with the current tokio runtime.
    ///
    /// # Errors
    /// The events, with [`Os`](crate::ErrorKind::Os): the errno of `epoll_ctl`, which the runtime
    /// calls to register the descriptor.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in a runtime without IO (`Builder::enable_io`).
    pub fn into_async(self) -> Result<AsyncDeviceEvents, Refused<Self>> {
        // SAFETY: the context keeps the descriptor open, and the result owns a handle to the
        // context.
        let fd = unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) };
        Ok(AsyncDeviceEvents { fd: fd.map_err(not_registered)?, turns: Turns::default() })
    }
}

impl AsyncDeviceEvents {
    /// Removes the events from the runtime and returns them.
    pub fn into_inner(self) -> DeviceEvents {
        self.fd.into_inner()
    }

    /// Waits for the next event, **forever** if there is none, so combine it with a timeout.
    ///
    /// Safe to cancel at any point: a cancelled call has not taken an event.
    ///
    /// # Errors
    /// As for [`DeviceEvents::try_next`], and [`Os`](crate::ErrorKind::Os) with the errno of
    /// `epoll_ctl` if the runtime is shutting down.
    pub async fn next(&mut self) -> Result<DeviceEvent, Error> {
        self.turns.take(&mut self.fd, DeviceEvents::try_next).await
    }
}
