//! The first calls of a program, in the order of use.
//!
//! rustdoc shows methods in the order of the modules that define them, and this module is the
//! first. So the pages of [`Context`] and [`ProtectionDomain`] begin with these calls, although
//! their results come from several modules.

use crate::completion::builder;
use crate::completion::{CompletionChannel, CompletionQueue, CqBuilder, CqHandle};
use crate::device::context;
use crate::device::{Context, ProtectionDomain};
use crate::memory::{Access, Entry, MemoryRegion, Pool, PoolBuilder, RegionBuilder};
use crate::profile::Profile;
use crate::qp::{CreatedWith, QueuePair, create};
use crate::terms::error::Error;
use crate::terms::state::Reset;
use crate::terms::threads::Threads;
use crate::terms::transport::Transport;

impl Context {
    /// Opens the device called `name` (`ibv_open_device`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// let error = Context::open("nonesuch").unwrap_err();
    /// // There is no such device, or no device at all.
    /// assert!(matches!(error.kind(), ErrorKind::NotFound(_) | ErrorKind::Absent(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::NotFound`](crate::ErrorKind::NotFound): no device has this name. The error
    ///   lists the devices.
    /// - [`ErrorKind::Absent`](crate::ErrorKind::Absent): this process cannot use the device. The
    ///   error contains the reason.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno otherwise.
    #[doc(alias = "ibv_open_device")]
    pub fn open(name: &str) -> Result<Context, Error> {
        context::open(name)
    }

    /// Allocates a protection domain (`ibv_alloc_pd`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias = "ibv_alloc_pd")]
    pub fn alloc_pd(&self) -> Result<ProtectionDomain, Error> {
        ProtectionDomain::new(self)
    }

    /// Creates a completion queue with room for at least `cqe` completions (`ibv_create_cq`). `E`
    /// is the entry type of the queues whose work requests complete here. Use [`cq`](Self::cq) to
    /// set options, or to compute `cqe` from the depths of queue pairs.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// // Two queue pairs with 8 sends and 8 receives, and room for a drain of each.
    /// let cq: CompletionQueue = context.create_cq(2 * (8 + 1 + 8))?;
    /// assert!(cq.capacity() >= 34);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`CqBuilder::create`].
    #[doc(alias = "ibv_create_cq")]
    pub fn create_cq<E: Entry>(&self, cqe: u32) -> Result<CompletionQueue<E>, Error> {
        self.cq(cqe).create()
    }

    /// Starts building a completion queue with room for at least `cqe` completions. [`CqBuilder`]
    /// has the options. `cqe` may be 0 if you add room with
    /// [`queue_pairs`](CqBuilder::queue_pairs) or [`receives`](CqBuilder::receives).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let channel = context.create_comp_channel()?;
    /// let cq: CompletionQueue = context.cq(64).channel(&channel).create()?;
    /// assert!(cq.capacity() >= 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cq(&self, cqe: u32) -> CqBuilder<'static> {
        builder::sized(self.clone(), cqe)
    }

    /// Creates a completion channel (`ibv_create_comp_channel`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`Absent`](crate::ErrorKind::Absent) if the process has no file descriptors left;
    /// [`Os`](crate::ErrorKind::Os) with any other errno.
    #[doc(alias = "ibv_create_comp_channel")]
    pub fn create_comp_channel(&self) -> Result<CompletionChannel, Error> {
        CompletionChannel::new(self)
    }
}

impl ProtectionDomain {
    /// Registers a region with `count` buffers of `size` bytes each, for sends and receives
    /// (`ibv_reg_mr` with LOCAL_WRITE). A buffer has at least 8 bytes, so that it can hold the
    /// result of an atomic ([R4.1](crate::guide::rules#r4-1)).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// Buffers are 8-byte aligned. If `size` is a multiple of 16, 64 or another power of two up to
    /// the page size, all buffers have that alignment.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let pool = pd.create_pool(64, 4096)?; // 64 buffers of 4096 bytes: one region of 256 KiB
    /// assert_eq!(pool.available(), 64);
    /// assert!(pd.create_pool(0, 4096).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): `count` or `size` exceeds 2^31 - 1, or the
    ///   region would be longer than the device's `max_mr_size`.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL: the region would be empty
    ///   ([R6.4](crate::guide::rules#r6-4)).
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with ENOMEM: there is not enough memory.
    /// - [`ErrorKind::LockedMemory`](crate::ErrorKind::LockedMemory): `ulimit -l` is too low.
    pub fn create_pool(&self, count: usize, size: usize) -> Result<Pool, Error> {
        self.pool(size).contexts(|_| ()).create(count)
    }

    /// Starts building a pool of buffers of `size` bytes each. [`PoolBuilder`] has the options,
    /// such as a context in each buffer, or memory that the program provides. A buffer has at least
    /// 8 bytes, and its size is rounded up to a multiple of 8.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let pool = pd.pool(4096).contexts(|index| index).create(64)?;
    /// assert_eq!((pool.count(), pool.available()), (64, 64));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pool(&self, size: usize) -> PoolBuilder<'_> {
        PoolBuilder::of(self, size)
    }

    /// Registers a region of `len` bytes with the access rights `A` (`ibv_reg_mr`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let counters = pd.register::<RemoteAtomic>(64)?;
    /// counters.cell(8)?.store(1, std::sync::atomic::Ordering::Relaxed);
    /// let at_peer = counters.remote().atomic(8)?; // send this to the peer, for FETCH_AND_ADD
    /// # let _ = at_peer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL: `len` is 0
    ///   ([R6.4](crate::guide::rules#r6-4)).
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with ENOMEM: there is not enough memory.
    /// - [`ErrorKind::LockedMemory`](crate::ErrorKind::LockedMemory): the process is not allowed to
    ///   pin that much memory.
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): `len` exceeds the device's `max_mr_size`.
    pub fn register<A: Access>(&self, len: usize) -> Result<MemoryRegion<A>, Error> {
        self.region().create(len)
    }

    /// Starts building a region with the access rights `A`. [`RegionBuilder`] has the options, such
    /// as memory that the program provides, or on-demand paging.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.region::<RemoteRead>().create_in(vec![7u8; 4096])?;
    /// let memory: Vec<u8> = region.destroy()?;
    /// # drop(memory);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn region<A: Access>(&self) -> RegionBuilder<'_, A> {
        RegionBuilder::of(self)
    }
}

impl<L: Threads> ProtectionDomain<L> {
    /// Creates a queue pair (`ibv_create_qp`) with a [`Depth`](crate::qp::Depth), or with
    /// [`Depth::on_srq`](crate::qp::Depth::on_srq) if its profile has `receive: SharedRq`. On UD
    /// either can have [flags](crate::qp::Depth::flags) (`ibv_create_qp_ex`). An SRD queue pair
    /// ([example](crate::QueuePair::sender)) is created with `efadv_create_qp_ex`, which is loaded
    /// from libefa at the first call.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// A [`CompletionQueue`] dereferences to a [`CqHandle`], so pass `&cq`. While one thread polls,
    /// other threads can pass a handle.
    ///
    /// The queue pair reserves `depth.send + 1` entries of `send_cq` and `depth.recv` entries of
    /// `recv_cq`, which may be the same queue. A shared receive queue reserves entries for all its
    /// buffers on `recv_cq`, unless it did so for an earlier queue pair. If the device cannot grant
    /// a limit, the error names it.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// let cq = context.create_cq(8 + 1 + 8)?;
    /// let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    /// assert_eq!(cq.capacity() - cq.unbooked(), 17);
    /// let error =
    ///     pd.create_qp::<Uc, DefaultProfile>(&cq, &cq, Depth { send: u32::MAX / 8, recv: 1 });
    /// assert!(error.unwrap_err().to_string().contains("max_send_wr"));
    /// # drop(qp);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): a value exceeds the device's maximum, which
    ///   the error contains.
    /// - [`ErrorKind::CqTooSmall`](crate::ErrorKind::CqTooSmall): a completion queue has too few
    ///   free entries ([R9.9](crate::guide::rules#r9-9)).
    /// - [`ErrorKind::CqGone`](crate::ErrorKind::CqGone): a completion queue is in error, or was
    ///   dropped or destroyed, so that only its handle is left.
    /// - [`ErrorKind::ContextMismatch`](crate::ErrorKind::ContextMismatch): a completion queue
    ///   belongs to another context ([R12.1](crate::guide::rules#r12-1)).
    /// - [`ErrorKind::PdMismatch`](crate::ErrorKind::PdMismatch): the shared receive queue belongs
    ///   to another protection domain ([R7.4](crate::guide::rules#r7-4)).
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the fabric or the provider does
    ///   not support the transport ([R24.2](crate::guide::rules#r24-2)) or the profile
    ///   ([R24.13](crate::guide::rules#r24-13)).
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno otherwise: EOPNOTSUPP or EINVAL if
    ///   the device does not support the flags; for SRD, ENOSYS if no libefa.so.1 is installed, and
    ///   EOPNOTSUPP if the device is not an EFA, or lacks RDMA.
    #[doc(alias("ibv_create_qp", "ibv_qp_init_attr", "send_cq", "recv_cq"))]
    #[doc(alias("rdma_create_qp_ex", "ibv_create_qp_ex", "IBV_QP_INIT_ATTR_PD"))]
    #[doc(alias("IBV_QP_INIT_ATTR_CREATE_FLAGS", "ibv_qp_init_attr_ex", "qp_context", "qp_type"))]
    #[doc(alias("sq_sig_all", "create_flags", "efadv_create_qp_ex"))]
    pub fn create_qp<T: Transport, P: Profile<Threads = L>>(
        &self,
        send_cq: &CqHandle<P::Entry, L>,
        recv_cq: &CqHandle<P::Entry, L>,
        depth: impl CreatedWith<T, P>,
    ) -> Result<QueuePair<T, Reset, P>, Error> {
        create::create_with(self, send_cq, recv_cq, depth)
    }
}
