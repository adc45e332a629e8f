//! One sleep for everything that a thread waits for.

use std::array::from_fn;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

#[cfg(feature = "cm")]
use crate::cm;
use crate::completion::channel::CompletionChannel;
use crate::completion::wait::{AnyCompletionQueue, first_ready};
use crate::device::{DeviceEvent, DeviceEvents};
use crate::sys::events::wait_readable;
use crate::sys::wait::{Waker, end_of, milliseconds, of_poll};
use crate::terms::error::Error;

/// A source that [`wait`] waits for.
#[non_exhaustive]
pub enum WaitFor<'a, 'q> {
    /// Completions in one of these queues, which must have been created on this channel.
    Cqs(&'a mut CompletionChannel, &'a mut [&'q mut dyn AnyCompletionQueue]),
    /// An event of rdma_cm.
    #[cfg(feature = "cm")]
    Cm(&'a cm::EventChannel),
    /// An asynchronous event of a device.
    Async(&'a mut DeviceEvents),
    /// A wake-up from another thread.
    Wake(&'a Waker),
}

/// The result that [`wait`] returns for one source.
#[derive(Debug)]
#[non_exhaustive]
pub enum Found {
    /// The index of the first completion queue that has completions: poll it. Later queues may have
    /// completions too.
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
/// with completions, one event of a channel, or a wake-up. If nothing arrives within `timeout`, all
/// results are `None`. The timeout is rounded up to whole milliseconds; `None` waits **forever**.
///
/// With this, one thread can process completions and also notice that a peer disconnected, even if
/// its receives are on a shared receive queue, which a disconnect does not flush. Each call checks
/// every source, so no source can starve another. A call makes one system call (poll(2)), and one
/// more for each event that it takes.
///
/// A call takes at most one event from each source. To take all pending events at once, for example
/// before their object is destroyed, call [`DeviceEvents::try_next`](crate::DeviceEvents::try_next)
/// until it returns `None`. There can be at most 32 sources. [`wait_slice`] accepts a run-time
/// number of sources.
///
/// On tokio, `tokio::select!` over [`AsyncCompletionChannel`](crate::AsyncCompletionChannel),
/// [`AsyncEventChannel`](crate::cm::AsyncEventChannel),
/// [`AsyncDeviceEvents`](crate::AsyncDeviceEvents) and a `tokio::sync::Notify` does the same.
/// Dropping one of their waits loses no event.
///
/// # Errors
/// [`Os`](crate::ErrorKind::Os): the errno of poll(2), or the error that the `wait` of the failed
/// source would return. The other sources lose no events: a call without the failed source returns
/// them. If the call has already taken an event from another source, it returns the event, and a
/// later call returns the error.
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
    sources: [WaitFor<'_, '_>; N],
    timeout: Option<Duration>,
) -> Result<[Option<Found>; N], Error> {
    const { assert!(N <= MOST) };
    let mut sources = sources.map(|source| (source, None));
    wait_slice(&mut sources, timeout)?;
    Ok(sources.map(|(_, found)| found))
}

/// A source, and what the last call found there.
type Source<'a, 'q> = (WaitFor<'a, 'q>, Option<Found>);

/// The number of bits for readable descriptors.
const MOST: usize = 32;

/// Like [`wait`], for a run-time number of sources. Stores the result of each source beside the
/// source, and overwrites the previous result. Does not allocate. Waits **forever** if `timeout` is
/// `None`.
///
/// ```
/// use proverbs::completion::AnyCompletionQueue;
/// use proverbs::events::{Found, WaitFor, Waker, wait_slice};
/// use proverbs::prelude::*;
///
/// # let fabric = proverbs::loopback::Fabric::new();
/// # let contexts: Vec<Context> = (0..3).map(|_| fabric.open_device()).collect();
/// let (mut channels, mut cqs) = (Vec::new(), Vec::<CompletionQueue>::new());
/// for context in &contexts { // the open devices of this machine
///     let channel = context.create_comp_channel()?;
///     cqs.push(context.cq(16).channel(&channel).create()?);
///     channels.push(channel);
/// }
/// let waker = Waker::new()?;
/// # waker.wake();
/// let mut lists: Vec<[&mut dyn AnyCompletionQueue; 1]> =
///     cqs.iter_mut().map(|cq| [cq as _]).collect();
/// let lists = channels.iter_mut().zip(&mut lists);
/// let mut sources: Vec<_> =
///     lists.map(|(channel, list)| (WaitFor::Cqs(channel, list), None)).collect();
/// sources.push((WaitFor::Wake(&waker), None));
/// wait_slice(&mut sources, None)?;
/// let found: Vec<Option<Found>> = sources.into_iter().map(|(_, found)| found).collect();
/// for (cq, found) in cqs.iter_mut().zip(&found) {
///     if found.is_some() {
///         cq.poll()?.for_each(drop);
///     }
/// }
/// # assert!(matches!(found[..], [None, None, None, Some(Found::Wake)]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`wait`], and [`Limit`](crate::ErrorKind::Limit) if there are more than 32 sources. After
/// an error, no result contains an event.
pub fn wait_slice(
    sources: &mut [(WaitFor<'_, '_>, Option<Found>)],
    timeout: Option<Duration>,
) -> Result<(), Error> {
    Error::at_most("poll", "sources", sources.len() as u64, MOST as u64)?;
    let end = end_of(timeout);
    sources.iter_mut().for_each(|(_, found)| *found = None);
    let mut is_found = look(sources, |_, source| source.completions())?;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = if is_found { Some(Duration::ZERO) } else { left };
        let fds: [_; MOST] = from_fn(|i| Some(sources.get(i)?.0.fd()));
        let readable = wait_readable(fds, milliseconds(left));
        let readable = readable.map_err(of_poll)?;
        let is_readable = |i: usize| readable >> i & 1 != 0;
        look(sources, |i, source| if is_readable(i) { source.take() } else { Ok(None) })?;
        // Completions that arrived since then are returned with the rest. A queue is armed before
        // each sleep.
        is_found = look(sources, |_, source| source.completions())?;
        if is_found || end.is_some_and(|end| end <= Instant::now()) {
            return Ok(());
        }
    }
}

/// Asks each source, and returns whether any has a result. If one fails, the error is returned,
/// unless an event was taken, which would be lost: then a later call returns the error.
/// (Completions stay in their queue.)
fn look<'a, 'q>(
    sources: &mut [Source<'a, 'q>],
    mut ask: impl FnMut(usize, &mut WaitFor<'a, 'q>) -> Result<Option<Found>, Error>,
) -> Result<bool, Error> {
    for i in 0..sources.len() {
        match ask(i, &mut sources[i].0) {
            Ok(None) => {}
            Ok(some) => sources[i].1 = some,
            Err(error) if sources.iter().all(|(_, it)| matches!(it, None | Some(Found::Cq(_)))) => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
    Ok(sources.iter().any(|(_, found)| found.is_some()))
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
        let WaitFor::Cqs(channel, queues) = self else { return Ok(None) };
        Ok(first_ready(channel, queues)?.map(Found::Cq))
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
            let mut sources = [(); 3].map(|()| (WaitFor::Wake(&waker), None));
            let mut answers = answers.into_iter();
            let looked =
                look(&mut sources, |_, _| answers.next().unwrap_or(Ok(None)).map_err(of_poll));
            let found = sources.map(|(_, found)| found.is_some());
            assert!(
                looked.as_ref().is_ok_and(|any| *any == found.contains(&true)) || looked.is_err()
            );
            looked.map(|_| found).map_err(|error| error.errno())
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
