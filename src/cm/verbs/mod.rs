//! The calls of rdma_verbs.h, in typed form.
//!
//! | C | here |
//! |---|---|
//! | `rdma_reg_msgs` | [`CmId::reg_msgs`], [`Ep::reg_msgs`](super::Ep::reg_msgs): a pool of buffers |
//! | `rdma_reg_read`, `rdma_reg_write` | `reg_read`, `reg_write`: a region open to the peer |
//! | `rdma_dereg_mr` | [`Pool::destroy`], [`MemoryRegion::destroy`], or dropping them |
//! | `rdma_post_recv`, `rdma_post_recvv` | `post_recv`, `post_recvv` |
//! | `rdma_post_send`, `_sendv`, `_read`, `_readv`, `_write`, `_writev` | the methods of the same names |
//! | `rdma_post_ud_send` | `post_ud_send` |
//! | `rdma_get_send_comp`, `rdma_get_recv_comp` | `get_send_comp`, `get_recv_comp`; without waiting, `try_send_comp`, `try_recv_comp` |
//! | `rdma_create_srq` | [`CmId::create_srq`] |
//!
//! The context of each post is stored in its buffer (`Buf<C>`) and returned with the completion, in
//! the program's own type. The `flags` of the C calls are methods of the work request: to use them,
//! post the work request on the endpoint's `qp`.
//!
//! ```no_run
//! use proverbs::{cm::*, prelude::*};
//! use std::time::Duration;
//!
//! /// The purpose of a post. Its type cannot be confused with another one.
//! #[derive(Debug, Default)]
//! enum Task {
//!     #[default]
//!     None,
//!     Read(u64),
//!     Message(String),
//! }
//!
//! profile! { Vectored { max_send_sge: 4, max_recv_sge: 4, entry: AnyBuf<Task> } }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let second = Duration::from_secs(1);
//! let info = &AddrInfo::<Tcp>::look_up("storage", "7471")?[0];
//! let mut ep = info.create_ep::<Vectored>(None, Depth { send: 8, recv: 8 }, second)?;
//! let pool = ep.reg_msgs::<Task>(16, 64)?;
//! let take = || pool.take().expect("16 buffers");
//! let open = (ep.reg_read(4096)?, ep.reg_write(4096)?); // for the peer to read, and to write
//! ep.post_recv(Task::Message("hello?".into()), take())?;
//! ep.post_recvv(Task::None, [take(), take()])?;
//!
//! let mut ep = ep.connect(&ConnParam::default(), second)?;
//! let bytes = ep.private_data.first_chunk().ok_or("the peer exports no region")?;
//! let there = RemoteSlice::<RemoteReadWrite>::from_bytes(bytes).ok_or("no such region")?;
//! ep.post_send(Task::Message("hello".into()), take())?;
//! ep.post_sendv(Task::None, [take(), take()])?;
//! ep.post_read(Task::Read(0), take(), there.read())?;
//! ep.post_readv(Task::Read(1), [take(), take()], there.read())?;
//! ep.post_write(Task::None, take(), there.write())?;
//! ep.post_writev(Task::None, [take(), take()], there.write())?;
//! for _ in 0..6 {
//!     if let Outcome::Sent(sent) = ep.get_send_comp()? { // or `get_send_comp_timeout(second)`
//!         let buf = sent.entry.and_then(AnyBuf::into_buf);
//!         println!("{:?} is done: {:?}", sent.opcode, buf.as_ref().map(Buf::context));
//!     }
//! }
//! match ep.get_recv_comp_timeout(second)? { // or `get_recv_comp()`
//!     Outcome::Received(received) => println!("{} bytes", received.byte_len),
//!     Outcome::Failed(failed) => println!("{}", failed.error),
//!     _ => {}
//! }
//! # drop(open);
//! # Ok(())
//! # }
//! ```

mod post;

use std::time::Duration;

use super::ep::{Ep, EpState, Side};
use super::id::CmId;
use super::space::PortSpace;
use super::state::{CmState, Mode};
use crate::allows::{Allows, call};
use crate::completion::channel::CompletionChannel;
use crate::completion::outcome::Outcome;
use crate::completion::{Completion, Notify};
use crate::device::pd::ProtectionDomain;
use crate::memory::entry::Owned;
use crate::memory::pool::Pool;
use crate::memory::region::MemoryRegion;
use crate::memory::rights::{RemoteRead, RemoteWrite};
use crate::profile::{Profile, SignalAll};
use crate::rules::SharesReceives;
use crate::srq::{FeedsSrq, SharedReceiveQueue};
use crate::terms::error::{Error, ErrorKind};
use crate::terms::threads::Threads;
use crate::work::limits::Limit;

fn reg_msgs<C: Default + 'static>(
    pd: &ProtectionDomain,
    count: usize,
    size: usize,
) -> Result<Pool<C>, Error> {
    pd.pool(size).contexts(|_| C::default()).create(count)
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// Registers `count` buffers of `size` bytes for messages, on [`pd`](Self::pd)
    /// (`rdma_reg_msgs`).
    ///
    /// # Errors
    /// As for [`pd`](Self::pd) and [`ProtectionDomain::create_pool`].
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # fn example(id: &CmId<Tcp, RouteResolved>) -> Result<(), proverbs::Error> {
    /// let pool = id.reg_msgs::<()>(16, 64)?;
    /// let (to_read, to_write) = (id.reg_read(4096)?, id.reg_write(4096)?);
    /// let srq: SharedReceiveQueue<Rc> = id.create_srq(&pool)?;
    /// # drop((to_read, to_write, srq));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reg_msgs<C: Default + 'static>(
        &self,
        count: usize,
        size: usize,
    ) -> Result<Pool<C>, Error>
    where
        Self: Allows<call::UseDevice>,
    {
        reg_msgs(&self.pd()?, count, size)
    }

    /// Registers `len` bytes that the peer can read (`rdma_reg_read`).
    ///
    /// # Errors
    /// As for [`pd`](Self::pd) and [`ProtectionDomain::register`].
    pub fn reg_read(&self, len: usize) -> Result<MemoryRegion<RemoteRead>, Error>
    where
        Self: Allows<call::UseDevice>,
    {
        self.pd()?.register(len)
    }

    /// Registers `len` bytes that the peer can write (`rdma_reg_write`).
    ///
    /// # Errors
    /// As for [`pd`](Self::pd) and [`ProtectionDomain::register`].
    pub fn reg_write(&self, len: usize) -> Result<MemoryRegion<RemoteWrite>, Error>
    where
        Self: Allows<call::UseDevice>,
    {
        self.pd()?.register(len)
    }

    /// Creates a shared receive queue on [`pd`](Self::pd) for queue pairs of this port space, with
    /// buffers of `pool` (`rdma_create_srq`). It is an ordinary
    /// [`SharedReceiveQueue`](crate::SharedReceiveQueue), whose counters limit how much is posted.
    ///
    /// # Errors
    /// As for [`pd`](Self::pd) and [`ProtectionDomain::create_srq`].
    #[doc(alias("rdma_create_srq", "rdma_destroy_srq", "rdma_cm_id"))]
    pub fn create_srq<E, L, C>(
        &self,
        pool: &impl FeedsSrq<C>,
    ) -> Result<SharedReceiveQueue<PS::Transport, E, L>, Error>
    where
        Self: Allows<call::UseDevice>,
        PS::Transport: SharesReceives,
        E: Owned + Allows<call::FeedFrom<C>>,
        L: Limit,
        C: 'static,
    {
        self.pd()?.create_srq(pool)
    }
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile, M: Mode> Ep<PS, S, P, M> {
    /// Registers `count` buffers of `size` bytes for messages (`rdma_reg_msgs`).
    ///
    /// # Errors
    /// As for [`ProtectionDomain::create_pool`].
    #[doc(alias("rdma_reg_msgs", "rdma_dereg_mr"))]
    pub fn reg_msgs<C: Default + 'static>(
        &self,
        count: usize,
        size: usize,
    ) -> Result<Pool<C>, Error> {
        reg_msgs(&self.pd, count, size)
    }

    /// Registers `len` bytes that the peer can read (`rdma_reg_read`).
    ///
    /// # Errors
    /// As for [`ProtectionDomain::register`].
    #[doc(alias = "rdma_reg_read")]
    pub fn reg_read(&self, len: usize) -> Result<MemoryRegion<RemoteRead>, Error> {
        self.pd.register(len)
    }

    /// Registers `len` bytes that the peer can write (`rdma_reg_write`).
    ///
    /// # Errors
    /// As for [`ProtectionDomain::register`].
    #[doc(alias = "rdma_reg_write")]
    pub fn reg_write(&self, len: usize) -> Result<MemoryRegion<RemoteWrite>, Error> {
        self.pd.register(len)
    }
}

impl<PS, S, P, M> Ep<PS, S, P, M>
where
    PS: PortSpace,
    S: EpState<PS>,
    P: Profile<Signaling = SignalAll>,
    M: Mode,
    P::Entry: Owned,
{
    /// Returns the next completion of a send (`rdma_get_send_comp`). Waits **forever** if none
    /// comes.
    ///
    /// # Errors
    /// As for [`CompletionChannel::wait`](crate::CompletionChannel::wait). A failed work request is
    /// not an error, but an [`Outcome::Failed`].
    #[doc(alias = "rdma_get_send_comp")]
    pub fn get_send_comp(&mut self) -> Result<Outcome<'_, P::Entry>, Error> {
        self.send.next()
    }

    /// Returns the next completion of a receive (`rdma_get_recv_comp`). Waits **forever** if none
    /// comes.
    ///
    /// # Errors
    /// As for [`get_send_comp`](Self::get_send_comp).
    #[doc(alias = "rdma_get_recv_comp")]
    pub fn get_recv_comp(&mut self) -> Result<Outcome<'_, P::Entry>, Error> {
        self.recv.next()
    }

    /// Like [`get_send_comp`](Self::get_send_comp), for at most `timeout`.
    ///
    /// # Errors
    /// As for [`get_send_comp`](Self::get_send_comp), and [`TimedOut`](ErrorKind::TimedOut).
    pub fn get_send_comp_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Outcome<'_, P::Entry>, Error> {
        self.send.next_within(timeout, "rdma_get_send_comp")
    }

    /// Like [`get_recv_comp`](Self::get_recv_comp), for at most `timeout`.
    ///
    /// # Errors
    /// As for [`get_send_comp`](Self::get_send_comp), and [`TimedOut`](ErrorKind::TimedOut).
    pub fn get_recv_comp_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Outcome<'_, P::Entry>, Error> {
        self.recv.next_within(timeout, "rdma_get_recv_comp")
    }

    /// Returns the next completion of a send, if there is one. Never waits. After `None` you can
    /// sleep on the descriptor of [`send_channel`](Self::send_channel), and call this again when it
    /// is readable. [`EpPending`](crate::cm::EpPending) has an example.
    ///
    /// # Errors
    /// As for [`CompletionQueue::poll_or_arm`](crate::CompletionQueue::poll_or_arm) and
    /// [`CompletionChannel::try_event`].
    pub fn try_send_comp(&mut self) -> Result<Option<Outcome<'_, P::Entry>>, Error> {
        self.send.try_next()
    }

    /// Returns the next completion of a receive, if there is one, like
    /// [`try_send_comp`](Self::try_send_comp). Its channel is [`recv_channel`](Self::recv_channel).
    ///
    /// # Errors
    /// As for [`try_send_comp`](Self::try_send_comp).
    pub fn try_recv_comp(&mut self) -> Result<Option<Outcome<'_, P::Entry>>, Error> {
        self.recv.try_next()
    }

    /// The completion channel of sends. Its descriptor is for poll(2) and event loops.
    pub fn send_channel(&self) -> &CompletionChannel {
        &self.send.channel
    }

    /// The completion channel of receives. Its descriptor is for poll(2) and event loops.
    pub fn recv_channel(&self) -> &CompletionChannel {
        &self.recv.channel
    }
}

impl<E: Owned, L: Threads> Side<E, L> {
    fn try_next(&mut self) -> Result<Option<Outcome<'_, E>>, Error> {
        // Takes earlier events, because the descriptor is readable while there are any.
        while self.channel.try_event()?.is_some() {}
        Ok(self.cq.poll_or_arm(Notify::Any)?.next().map(Completion::outcome))
    }

    fn next(&mut self) -> Result<Outcome<'_, E>, Error> {
        let completion = self.channel.wait(&mut self.cq)?.next();
        Ok(completion.expect("a wait ends with a completion").outcome())
    }

    fn next_within(
        &mut self,
        timeout: Duration,
        verb: &'static str,
    ) -> Result<Outcome<'_, E>, Error> {
        let found = self.channel.wait_timeout(&mut self.cq, timeout)?.next();
        let found = found.ok_or_else(|| Error::new(verb, ErrorKind::TimedOut { after: timeout }));
        found.map(|completion| completion.outcome())
    }
}
