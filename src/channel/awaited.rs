//! Awaiting completions on tokio.

#![allow(unsafe_code)] // one descriptor that outlives its registration

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;

use super::wait::{Ready, first_ready};
use super::{AnyCompletionQueue, CompletionChannel};
use crate::cq::{CompletionQueue, Completions, Notify};
use crate::entry::Entry;
use crate::error::{Error, Refused};

/// A completion channel to await on, in a tokio runtime (feature `tokio`).
///
/// **A dropped future costs nothing.** It owns no buffer and no completion: buffers are the device's until their
/// completion was polled, and what was polled stays in the completion queue until it is handed out. So
/// `select!` and time-outs may drop it at any point, and the next wait finds all there is.
///
/// As all that holds completions, what [`wait`](Self::wait) gives stays on its thread: drop it before the next
/// `await`, and the task may move between threads.
///
/// A channel is for one task at a time; a task may wait for [many queues](Self::wait_any).
///
/// ```
/// use proverbs::{loopback::Fabric, *};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// # let context = Fabric::new().open_device();
/// # let pd = context.alloc_pd()?;
/// let mut channel = context.create_comp_channel()?.into_async()?;
/// let mut cq: CompletionQueue = context.create_cq_on(16, channel.get_ref())?;
/// // ... a queue pair on `cq`, connected ...
/// # let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
/// # let mut qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// # let pool = pd.create_pool(1, 64)?;
/// qp.post_recv(Recv::new(pool.take().expect("one buffer")))?;
/// # let _qp = qp.to_error()?;
/// for completion in channel.wait(&mut cq).await? {
///     println!("{completion:?}");
/// }
/// let channel = channel.into_inner(); // to sleep without a runtime, or in another one
/// # drop(channel);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncCompletionChannel {
    fd: AsyncFd<CompletionChannel>,
}

impl CompletionChannel {
    /// Registers the channel with the tokio runtime that this is called in. The example is
    /// [the result's](AsyncCompletionChannel).
    ///
    /// # Errors
    /// The channel comes back, with [`Os`](crate::ErrorKind::Os): the errno of `epoll_ctl` by which the runtime
    /// registers it.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in one without IO (`Builder::enable_io`).
    pub fn into_async(self) -> Result<AsyncCompletionChannel, Refused<Self>> {
        // SAFETY: the descriptor is open as long as the channel lives, which the result owns.
        match unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) } {
            Ok(fd) => Ok(AsyncCompletionChannel { fd }),
            Err(failed) => {
                let (channel, error) = failed.into_parts();
                Err(Refused::new(channel, registration(&error)))
            }
        }
    }
}

/// What the runtime refused.
pub(crate) fn registration(error: &std::io::Error) -> Error {
    Error::os("epoll_ctl", error.raw_os_error().unwrap_or(libc::EIO), "")
}

impl AsyncCompletionChannel {
    /// The channel, to create completion queues on.
    pub fn get_ref(&self) -> &CompletionChannel {
        self.fd.get_ref()
    }

    /// The channel, no longer registered with the runtime.
    pub fn into_inner(self) -> CompletionChannel {
        self.fd.into_inner()
    }

    /// Completions of `cq`, which must be on this channel, as soon as there are any; never empty. Awaits **for ever**
    /// if none come: put a time-out around it. As [`CompletionChannel::wait`].
    ///
    /// Safe to cancel, at any point. The example is [the channel's](AsyncCompletionChannel).
    ///
    /// # Errors
    /// As [`CompletionChannel::wait`]; and [`Os`](crate::ErrorKind::Os) of `epoll_ctl` if the runtime is shutting
    /// down.
    pub async fn wait<'cq, E: Entry>(
        &mut self,
        cq: &'cq mut CompletionQueue<E>,
    ) -> Result<Completions<'cq, E>, Error> {
        while !cq.is_ready(self.get_ref(), Notify::Any)? {
            self.event().await?;
        }
        Ok(cq.hand_out())
    }

    /// As [`wait`](Self::wait), **for ever** too, but only a solicited receive or a failure ends the sleep, with the limits of
    /// [`CompletionChannel::wait_solicited`].
    ///
    /// Safe to cancel, at any point.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, *};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let context = Fabric::new().open_device();
    /// let mut channel = context.create_comp_channel()?.into_async()?;
    /// let mut cq: CompletionQueue = context.create_cq_on(16, channel.get_ref())?;
    /// tokio::select! {
    ///     completions = channel.wait_solicited(&mut cq) => completions?.for_each(drop),
    ///     _ = tokio::time::sleep(std::time::Duration::from_millis(1)) => println!("nobody sends"),
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })
    /// # }
    /// ```
    pub async fn wait_solicited<'cq, E: Entry>(
        &mut self,
        cq: &'cq mut CompletionQueue<E>,
    ) -> Result<Completions<'cq, E>, Error> {
        while !cq.is_ready(self.get_ref(), Notify::Solicited)? {
            self.event().await?;
        }
        Ok(cq.hand_out())
    }

    /// The index of the first of `queues`, which must all be on this channel, that has completions, as soon as
    /// one has. Awaits **for ever** if none has. As [`CompletionChannel::wait_any`].
    ///
    /// Safe to cancel, at any point.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), of any of the queues.
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, *};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let context = Fabric::new().open_device();
    /// let mut channel = context.create_comp_channel()?.into_async()?;
    /// let mut few: CompletionQueue = context.create_cq_on(16, channel.get_ref())?;
    /// let mut lists: CompletionQueue<BufList> = context.create_cq_on(16, channel.get_ref())?;
    /// let time = std::time::Duration::from_millis(1);
    /// match tokio::time::timeout(time, channel.wait_any(&mut [&mut few, &mut lists])).await {
    ///     Ok(index) => match index? {
    ///         0 => few.poll()?.for_each(drop),
    ///         _ => lists.poll()?.for_each(drop),
    ///     },
    ///     Err(_) => println!("nothing came"),
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })
    /// # }
    /// ```
    pub async fn wait_any(
        &mut self,
        queues: &mut [&mut (dyn AnyCompletionQueue + Send)],
    ) -> Result<usize, Error> {
        loop {
            if let Some(index) = first_ready(self.get_ref(), queues)? {
                return Ok(index);
            }
            self.event().await?;
        }
    }

    /// Waits until the descriptor is readable, and takes an event if there is one. The only place that
    /// awaits: dropped there, nothing has been taken.
    async fn event(&mut self) -> Result<(), Error> {
        let mut guard = self.fd.readable_mut().await.map_err(|error| registration(&error))?;
        if guard.get_inner_mut().try_event()?.is_none() {
            guard.clear_ready();
        }
        Ok(())
    }
}
