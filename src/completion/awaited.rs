//! Awaiting completions on tokio.

#![allow(unsafe_code)] // one descriptor that outlives its registration

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;

use crate::completion::wait::{Ready, first_ready};
use crate::completion::{
    AnyCompletionQueue, CompletionChannel, CompletionQueue, Completions, Notify,
};
use crate::memory::Entry;
use crate::terms::error::{Error, Refused};
use crate::terms::threads::Threads;
use crate::wait::{Turns, not_registered, registration, step_aside};

/// A completion channel for use in a tokio runtime (feature `tokio`).
///
/// **Cancelling a wait loses nothing.** A future owns no buffers and no completions. The device
/// owns a buffer until its completion is polled, and polled completions stay in the completion
/// queue until they are returned. So `select!` and timeouts can drop a future at any point, and
/// the next wait returns everything.
///
/// Completions are not `Send`, and neither is the result of [`wait`](Self::wait). Drop it before
/// the next `await` if the task moves between threads.
///
/// Only one task at a time can use a channel, but that task can wait for [many
/// queues](Self::wait_any).
///
/// ```
/// use proverbs::{loopback::Fabric, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// # let context = Fabric::new().open_device();
/// # let pd = context.alloc_pd()?;
/// let mut channel = context.create_comp_channel()?.into_async()?;
/// let mut cq: CompletionQueue = context.cq(16).channel(channel.get_ref()).create()?;
/// // ... a queue pair on `cq`, connected ...
/// # let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
/// # let mut qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// # let pool = pd.create_pool(1, 64)?;
/// qp.post_recv(wr::Recv::new(pool.take().expect("one buffer")))?;
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
    turns: Turns,
}

impl CompletionChannel {
    /// Registers the channel with the current tokio runtime.
    ///
    /// # Errors
    /// The channel, with [`Os`](crate::ErrorKind::Os): the errno of `epoll_ctl`, which the runtime
    /// calls to register it.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in a runtime without IO (`Builder::enable_io`).
    pub fn into_async(self) -> Result<AsyncCompletionChannel, Refused<Self>> {
        // SAFETY: the channel keeps the descriptor open, and the result owns the channel.
        let fd = unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) };
        Ok(AsyncCompletionChannel { fd: fd.map_err(not_registered)?, turns: Turns::default() })
    }
}

impl AsyncCompletionChannel {
    /// The channel. Create completion queues on it.
    pub fn get_ref(&self) -> &CompletionChannel {
        self.fd.get_ref()
    }

    /// Removes the channel from the runtime and returns it.
    pub fn into_inner(self) -> CompletionChannel {
        self.fd.into_inner()
    }

    /// Waits until `cq`, which must be on this channel, has completions, and polls them. The result
    /// is never empty. Like [`CompletionChannel::wait`], it waits **forever** if no completion
    /// arrives, so combine it with a timeout.
    ///
    /// Safe to cancel at any point.
    ///
    /// # Errors
    /// As for [`CompletionChannel::wait`], and [`Os`](crate::ErrorKind::Os) with the errno of
    /// `epoll_ctl` if the runtime is shutting down.
    pub async fn wait<'cq, E: Entry, L: Threads>(
        &mut self,
        cq: &'cq mut CompletionQueue<E, L>,
    ) -> Result<Completions<'cq, E>, Error> {
        self.ready(cq).await?;
        Ok(cq.hand_out())
    }

    /// Waits until `cq` has completions, and leaves them in the queue.
    pub(crate) async fn ready<E: Entry, L: Threads>(
        &mut self,
        cq: &mut CompletionQueue<E, L>,
    ) -> Result<(), Error> {
        self.until(|channel| Ok(cq.is_ready(channel, Notify::Any)?.then_some(()))).await
    }

    /// Like [`wait`](Self::wait), but only a solicited receive ends the sleep. On some devices a
    /// failure ends it too. It may wait **forever**, so combine it with a timeout: see
    /// [`CompletionChannel::wait_solicited`].
    ///
    /// Safe to cancel at any point.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, prelude::*};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let context = Fabric::new().open_device();
    /// let mut channel = context.create_comp_channel()?.into_async()?;
    /// let mut cq: CompletionQueue = context.cq(16).channel(channel.get_ref()).create()?;
    /// tokio::select! {
    ///     completions = channel.wait_solicited(&mut cq) => completions?.for_each(drop),
    ///     _ = tokio::time::sleep(std::time::Duration::from_millis(1)) => println!("timed out"),
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })
    /// # }
    /// ```
    pub async fn wait_solicited<'cq, E: Entry, L: Threads>(
        &mut self,
        cq: &'cq mut CompletionQueue<E, L>,
    ) -> Result<Completions<'cq, E>, Error> {
        self.until(|channel| Ok(cq.is_ready(channel, Notify::Solicited)?.then_some(()))).await?;
        Ok(cq.hand_out())
    }

    /// Waits until one of `queues`, all on this channel, has completions. Returns the index of the
    /// first queue that does. Like [`CompletionChannel::wait_any`], it waits **forever** if no
    /// completion arrives.
    ///
    /// Safe to cancel at any point.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), for any of the queues.
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, prelude::*};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let context = Fabric::new().open_device();
    /// let mut channel = context.create_comp_channel()?.into_async()?;
    /// let mut few: CompletionQueue = context.cq(16).channel(channel.get_ref()).create()?;
    /// let lists = context.cq(16).channel(channel.get_ref());
    /// let mut lists: CompletionQueue<BufList> = lists.create()?;
    /// let time = std::time::Duration::from_millis(1);
    /// match tokio::time::timeout(time, channel.wait_any(&mut [&mut few, &mut lists])).await {
    ///     Ok(index) => match index? {
    ///         0 => few.poll()?.for_each(drop),
    ///         _ => lists.poll()?.for_each(drop),
    ///     },
    ///     Err(_) => println!("no completions"),
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })
    /// # }
    /// ```
    pub async fn wait_any(
        &mut self,
        queues: &mut [&mut (dyn AnyCompletionQueue + Send)],
    ) -> Result<usize, Error> {
        self.until(|channel| first_ready(channel, queues)).await
    }

    /// Waits for events until `ready` returns a result. `ready` is called before the first wait.
    async fn until<R>(
        &mut self,
        mut ready: impl FnMut(&CompletionChannel) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        self.turns.begin().await;
        let mut had_others = false;
        loop {
            if let Some(found) = ready(self.get_ref())? {
                self.turns.took();
                return Ok(found);
            }
            self.event(&mut had_others).await?;
        }
    }

    /// Waits until the descriptor is readable, and takes an event if there is one. A future that is
    /// dropped at an `await` has not taken an event.
    ///
    /// `had_others`: whether this wait has already taken an event of another queue. Such events may
    /// arrive without end, and the runtime then always reports the descriptor as readable.
    async fn event(&mut self, had_others: &mut bool) -> Result<(), Error> {
        if *had_others {
            step_aside().await;
        }
        let ready = self.turns.sleep(self.fd.readable_mut()).await;
        let mut guard = ready.map_err(|error| registration(&error))?;
        match guard.get_inner_mut().try_event()? {
            Some(_) => *had_others = true,
            None => guard.clear_ready(),
        }
        Ok(())
    }
}
