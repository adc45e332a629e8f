//! Draining on tokio.

use super::QueuePair;
use super::drain::Drained;
use crate::completion::{AsyncCompletionChannel, CompletionQueue};
use crate::memory::Owned;
use crate::profile::Profile;
use crate::terms::error::Error;
use crate::terms::state::Err;
use crate::terms::threads::Threads;
use crate::terms::transport::Transport;
use crate::wait::step_aside;

impl<T: Transport, P: Profile<Entry: Owned>> QueuePair<T, Err, P> {
    /// Like [`drain`](Self::drain), for async code (feature `tokio`): between polls, the task waits
    /// on `channel`, which must be the channel of `cq`. It waits **forever** if the device does not
    /// flush, or if a completion of this queue pair was leaked with `mem::forget`, so combine it
    /// with a timeout.
    ///
    /// Safe to cancel at any point: polled completions have been passed to `found`, and you can
    /// drain again.
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, prelude::*};
    /// use proverbs::qp::Drained;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let context = Fabric::new().open_device();
    /// # let pd = context.alloc_pd()?;
    /// # let pool = pd.create_pool(1, 64)?;
    /// let mut channel = context.create_comp_channel()?.into_async()?;
    /// let mut cq: CompletionQueue = context.cq(16).channel(channel.get_ref()).create()?;
    /// let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    /// let mut qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() })?;
    /// qp.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// // ... the connection is no longer needed ...
    /// let mut qp = qp.to_error()?;
    /// let mut returned = 0;
    /// let drained = qp.drain_async(&mut channel, &mut cq, |found| match found {
    ///     Drained::Entry(_buf) => returned += 1,
    ///     Drained::Other(completion) => println!("{completion:?}"),
    /// });
    /// tokio::time::timeout(std::time::Duration::from_secs(10), drained).await??;
    /// assert_eq!(returned, 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`drain`](Self::drain) except for the timeout, and as for
    /// [`AsyncCompletionChannel::wait`].
    pub async fn drain_async<L: Threads>(
        &mut self,
        channel: &mut AsyncCompletionChannel,
        cq: &mut CompletionQueue<P::Entry, L>,
        mut found: impl FnMut(Drained<'_, P::Entry>),
    ) -> Result<(), Error> {
        let mut progress = self.begin_drain(cq, &mut found)?;
        while self.left_to_drain(&mut progress)?.is_some() {
            if self.drain_some(&mut progress, cq, &mut found)? > 0 {
                // Completions of other queues may arrive without end.
                step_aside().await;
            } else if self.left_to_drain(&mut progress)?.is_some() {
                channel.ready(cq).await?;
            }
        }
        Ok(())
    }
}
