//! One sleep for everything that a thread waits for.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

#[cfg(feature = "cm")]
use crate::cm;
use crate::completion::channel::CompletionChannel;
use crate::completion::wait::{AnyCompletionQueue, first_ready};
use crate::device::{DeviceEvent, DeviceEvents};
use crate::sys::events::wait_readable;
use crate::sys::wait::{Waker, end_of, milliseconds};
use crate::terms::error::Error;

/// What [`wait`] waits for.
#[non_exhaustive]
pub enum WaitFor<'a, 'q> {
    /// Completions in one of these queues, which must have been created on this channel.
    Cqs(&'a mut CompletionChannel, &'a mut [&'q mut dyn AnyCompletionQueue]),
    /// An event of rdma_cm.
    #[cfg(feature = "cm")]
    Cm(&'a cm::EventChannel),
    /// An asynchronous event of a device.
    Async(&'a mut DeviceEvents),
    /// A wake of another thread.
    Wake(&'a Waker),
}

/// What [`wait`] found.
#[derive(Debug)]
#[non_exhaustive]
pub enum Found {
    /// The index of the first completion queue that has completions: poll it. Later queues may have
    /// some too.
    Cq(usize),
    /// An event of rdma_cm.
    #[cfg(feature = "cm")]
    Cm(cm::Event),
    /// An asynchronous event.
    Async(DeviceEvent),
    /// The waker was woken.
    Wake,
}

/// Sleeps until one of the sources has something, and returns a result for each source: a queue
/// with completions, one event of a channel, or a wake. All are `None` if nothing came within
/// `timeout` (in steps of a millisecond, rounded up); waits **forever** if that is `None`.
///
/// With this, one thread can process completions and also notice that a peer disconnected, even if
/// its receives are on a shared receive queue, which a disconnect does not flush. Each call checks
/// every source, so no source can starve another. It makes one system call (poll(2)), and one more
/// for each event that it takes. At most 32 sources.
///
/// On tokio, `tokio::select!` over [`AsyncCompletionChannel`](crate::AsyncCompletionChannel),
/// [`AsyncEventChannel`](crate::cm::AsyncEventChannel) and
/// [`AsyncDeviceEvents`](crate::AsyncDeviceEvents) does the same: if one of their waits is dropped,
/// no event is lost.
///
/// # Errors
/// [`Os`](crate::ErrorKind::Os): the errno of poll(2), or of the source that failed, as its own
/// `wait` returns it. The other sources lose no events: a call without the failed source returns
/// them, and an error that comes together with an event is returned by a later call.
///
/// ```
/// use proverbs::events::{Found, WaitFor, Waker, wait};
/// use proverbs::prelude::*;
/// use std::time::Duration;
///
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let mut channel = context.create_comp_channel()?;
/// let mut cq: CompletionQueue = context.cq(16).channel(&channel).create()?;
/// let (mut events, waker) = (context.events()?, Waker::new()?);
/// waker.wake(); // usually on another thread
/// let [completions, event, wake] = wait(
///     [
///         WaitFor::Cqs(&mut channel, &mut [&mut cq]),
///         WaitFor::Async(&mut events),
///         WaitFor::Wake(&waker),
///     ],
///     Some(Duration::from_secs(1)),
/// )?;
/// if let Some(Found::Cq(_)) = completions {
///     cq.poll()?.for_each(drop);
/// }
/// assert!(matches!((event, wake), (None, Some(Found::Wake))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("poll", "ibv_get_cq_event", "rdma_get_cm_event", "ibv_get_async_event"))]
pub fn wait<const N: usize>(
    mut sources: [WaitFor<'_, '_>; N],
    timeout: Option<Duration>,
) -> Result<[Option<Found>; N], Error> {
    let end = end_of(timeout);
    let mut found = [const { None }; N];
    look(&mut sources, &mut found, WaitFor::completions)?;
    loop {
        let is_found = found.iter().any(Option::is_some);
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = if is_found { Some(Duration::ZERO) } else { left };
        let readable = wait_readable(sources.each_ref().map(WaitFor::fd), milliseconds(left));
        let readable = readable.map_err(|errno| Error::os("poll", errno, ""))?;
        let mut at = 0;
        look(&mut sources, &mut found, |source| {
            at += 1;
            if readable >> (at - 1) & 1 != 0 { source.take() } else { Ok(None) }
        })?;
        // Completions that arrived since then are returned with the rest. A queue is armed before
        // each sleep.
        look(&mut sources, &mut found, WaitFor::completions)?;
        let is_over = end.is_some_and(|end| end <= Instant::now());
        if is_over || found.iter().any(Option::is_some) {
            return Ok(found);
        }
    }
}

/// Asks each source. If one fails, the error is returned, unless an event was taken, which would be
/// lost: then a later call returns the error. (Completions stay in their queue.)
fn look<'a, 'q, const N: usize>(
    sources: &mut [WaitFor<'a, 'q>; N],
    found: &mut [Option<Found>; N],
    mut ask: impl FnMut(&mut WaitFor<'a, 'q>) -> Result<Option<Found>, Error>,
) -> Result<(), Error> {
    for i in 0..N {
        match ask(&mut sources[i]) {
            Ok(None) => {}
            Ok(some) => found[i] = some,
            Err(error) if found.iter().all(|one| matches!(one, None | Some(Found::Cq(_)))) => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
    Ok(())
}

impl WaitFor<'_, '_> {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            WaitFor::Cqs(channel, _) => channel.fd(),
            #[cfg(feature = "cm")]
            WaitFor::Cm(channel) => channel.channel.fd(),
            WaitFor::Async(events) => events.fd(),
            WaitFor::Wake(waker) => waker.fd(),
        }
    }

    /// Returns the first queue with completions. If there is none, all queues are armed.
    fn completions(&mut self) -> Result<Option<Found>, Error> {
        match self {
            WaitFor::Cqs(channel, queues) => Ok(first_ready(channel, queues)?.map(Found::Cq)),
            _ => Ok(None),
        }
    }

    /// Takes an event of a readable descriptor. (An event of a completion channel only means that a
    /// queue must be checked.)
    fn take(&mut self) -> Result<Option<Found>, Error> {
        match self {
            WaitFor::Cqs(channel, _) => channel.take_event().map(|()| None),
            #[cfg(feature = "cm")]
            WaitFor::Cm(channel) => Ok(channel.try_event()?.map(Found::Cm)),
            WaitFor::Async(events) => Ok(events.try_next()?.map(Found::Async)),
            WaitFor::Wake(waker) => Ok(waker.take().then_some(Found::Wake)),
        }
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;

    /// An error would lose an event that was taken before it, but not a completion.
    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn an_error_waits_for_a_later_call_if_an_event_was_taken() {
        let waker = Waker::new().unwrap();
        let look = |answers: [Result<Option<Found>, i32>; 3]| {
            let mut sources = [(); 3].map(|()| WaitFor::Wake(&waker));
            let (mut found, mut answers) = ([const { None }; 3], answers.into_iter());
            let error = |errno| Error::os("poll", errno, "");
            let looked = look(&mut sources, &mut found, |_| {
                answers.next().unwrap_or(Ok(None)).map_err(error)
            });
            looked.map(|()| found.map(|one| one.is_some())).map_err(|error| error.errno())
        };
        assert_eq!(look([Ok(None), Ok(None), Ok(None)]), Ok([false; 3]));
        assert_eq!(look([Ok(None), Ok(None), Err(5)]), Err(Some(5)));
        assert_eq!(look([Ok(Some(Found::Cq(0))), Ok(None), Err(5)]), Err(Some(5)));
        assert_eq!(look([Ok(Some(Found::Wake)), Ok(None), Err(5)]), Ok([true, false, false]));
        assert_eq!(look([Ok(None), Ok(Some(Found::Wake)), Err(5)]), Ok([false, true, false]));
        let taken = look([Ok(Some(Found::Cq(0))), Ok(Some(Found::Wake)), Err(5)]);
        assert_eq!(taken, Ok([true, true, false]));
        assert_eq!(look([Err(5), Ok(Some(Found::Wake)), Ok(None)]), Err(Some(5)));
        let later = look([Ok(Some(Found::Wake)), Err(5), Ok(Some(Found::Wake))]);
        assert_eq!(later, Ok([true, false, true]));
    }
}
