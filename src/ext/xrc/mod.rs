//! XRC: initiators and targets, domains, and shared receive queues with numbers. [`XrcTarget`] has
//! an example.
//!
//! The design is in [docs/xrc.md](https://docs.rs/crate/proverbs/latest/source/docs/xrc.md).

#![allow(unsafe_code)] // a few verbs

mod initiator;
mod target;

pub use initiator::{
    XrcReturn, XrcRtr, XrcRts, XrcRtsOptional, XrcSqd, XrcTargetRtr, XrcTargetRts,
};
pub use target::{TargetTransition, XrcTarget};

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use crate::allows::{Allows, call};
use crate::completion::CqHandle;
use crate::completion::attachments::Share;
use crate::device::attr_ex::sealed;
use crate::device::{Ability, Can, Context, DeviceAttrEx, DeviceCap, ProtectionDomain};
use crate::memory::{Entry, Owned, Raw};
use crate::srq::SharedReceiveQueue;
use crate::srq::create::{Feed, FeedsSrq, Made, refused};
use crate::sys::handle;
use crate::sys::refusal::destroy;
use crate::sys::xrc::ibv_srq_init_attr_ex;
use crate::terms::bounded::SrqNum;
use crate::terms::error::{Error, Refused};
use crate::terms::threads::Threads;
use crate::terms::transport::Xrc;
use crate::work::limits::Limit;

impl sealed::Sealed for Xrc {}

/// The device supports XRC (`IBV_DEVICE_XRC`).
impl Ability for Xrc {
    const NAME: &'static str = "XRC";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.device.device_cap_flags.contains(DeviceCap::XRC)
    }
}

/// Selects the processes that share an [`XrcDomain`] (`fd` and `oflags` of ibv_open_xrcd(3)). The
/// file serves only as a name: processes of one host that open the same file share a domain on the
/// same device. The file is neither read nor written, and can be closed.
///
/// ```
/// # use proverbs::prelude::*;
/// use std::os::fd::AsFd;
/// use proverbs::ext::xrc::XrcdFile;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let can = context.abilities()?.can::<Xrc>().ok_or("no XRC")?;
/// let file = std::fs::File::open("Cargo.toml")?; // any file that the processes agree on
/// // The domain of this file does not exist yet:
/// assert!(context.open_xrcd(&can, XrcdFile::Existing(file.as_fd())).is_err());
/// let first = context.open_xrcd(&can, XrcdFile::New(file.as_fd()))?;
/// // Now it exists. Other processes can join it, and so can this one.
/// let second = context.open_xrcd(&can, XrcdFile::Existing(file.as_fd()))?;
/// let third = context.open_xrcd(&can, XrcdFile::Any(file.as_fd()))?;
/// assert!(context.open_xrcd(&can, XrcdFile::New(file.as_fd())).is_err());
/// # drop((first, second, third));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_XRCD_INIT_ATTR_FD", "IBV_XRCD_INIT_ATTR_OFLAGS", "ibv_xrcd_init_attr_mask"))]
#[doc(alias("ibv_xrcd_init_attr", "ibv_xrcd"))]
#[derive(Clone, Copy, Debug)]
pub enum XrcdFile<'f> {
    /// The domain is private and has no file (-1).
    Private,
    /// Opens the domain of this file, or creates it if it does not exist (`O_CREAT`).
    Any(BorrowedFd<'f>),
    /// Creates the domain of this file, or fails if it exists (`O_CREAT | O_EXCL`).
    New(BorrowedFd<'f>),
    /// Opens the domain of this file, or fails if it does not exist.
    Existing(BorrowedFd<'f>),
}

impl XrcdFile<'_> {
    fn to_c(self) -> (c_int, c_int) {
        match self {
            XrcdFile::Private => (-1, libc::O_CREAT),
            XrcdFile::Any(file) => (file.as_raw_fd(), libc::O_CREAT),
            XrcdFile::New(file) => (file.as_raw_fd(), libc::O_CREAT | libc::O_EXCL),
            XrcdFile::Existing(file) => (file.as_raw_fd(), 0),
        }
    }
}

/// An XRC domain (`ibv_open_xrcd`). A target receives only into shared receive queues of its own
/// domain ([R26.4](crate::guide::rules#r26-4)). One process or several processes of a host can open
/// the domain.
///
/// [`XrcTarget`] has an example. The targets and shared receive queues of a domain keep it open.
#[doc(alias("IBV_XRCD_INIT_ATTR_FD", "IBV_XRCD_INIT_ATTR_OFLAGS", "ibv_xrcd"))]
pub struct XrcDomain {
    xrcd: Arc<handle::Xrcd>,
}

impl Context {
    /// Opens an XRC domain (`ibv_open_xrcd`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::ext::xrc::{XrcDomain, XrcdFile};
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let can = context.abilities()?.can::<Xrc>().ok_or("the device has no XRC")?;
    /// let domain: XrcDomain = context.open_xrcd(&can, XrcdFile::Private)?;
    /// domain.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`ContextMismatch`](crate::ErrorKind::ContextMismatch): `can` belongs to another context.
    /// - [`Os`](crate::ErrorKind::Os) with the errno otherwise: EAGAIN if the file has no domain,
    ///   EINVAL if it has one and `file` is [`New`](XrcdFile::New), EOPNOTSUPP if the library lacks
    ///   the verb.
    #[doc(alias("ibv_open_xrcd", "oflags"))]
    pub fn open_xrcd(&self, can: &Can<Xrc>, file: XrcdFile<'_>) -> Result<XrcDomain, Error> {
        const VERB: &str = "ibv_open_xrcd";
        can.check_is_of(self, VERB, "the ability for XRC and the context")?;
        let control = self.handle.control();
        let (fd, oflags) = file.to_c();
        // SAFETY: its handle keeps the context open.
        let xrcd = unsafe { (control.open_xrcd)(self.handle.as_ptr(), fd, oflags) };
        let xrcd = xrcd.map_err(|errno| Error::os(VERB, errno, format!("{file:?}")))?;
        // SAFETY: the object was just created, and has no other owner.
        let xrcd = unsafe { handle::Xrcd::new(xrcd, control, self.handle.clone()) };
        Ok(XrcDomain { xrcd: Arc::new(xrcd) })
    }
}

impl_debug!(XrcDomain, |_| "XrcDomain");

const VERB: &str = "ibv_create_srq_ex";

impl XrcDomain {
    /// Closes the domain (`ibv_close_xrcd`). Its targets and shared receive queues must be
    /// destroyed first. Those of other processes may still exist.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The domain, with [`Os`](crate::ErrorKind::Os): EBUSY if objects of it exist.
    #[doc(alias = "ibv_close_xrcd")]
    pub fn close(self) -> Result<(), Refused<Self>> {
        destroy("ibv_close_xrcd", self.xrcd, "objects of it")
            .map_err(|refused| refused.map(|xrcd| XrcDomain { xrcd }))
    }

    /// Creates a shared receive queue in this domain (`ibv_create_srq_ex` with `IBV_SRQT_XRC`) that
    /// can hold every buffer of `pool`. Initiators select it by its
    /// [number](SharedReceiveQueue::number). Their messages complete in `cq`, and the completions
    /// contain the target's number as the queue pair number.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// It reserves room for all its buffers on `cq`, once. WRITEs, READs and atomics that name this
    /// queue access memory of the protection domain `pd`.
    ///
    /// For other transports, use [`ProtectionDomain::create_srq`]: their receives complete in the
    /// completion queues of the queue pairs.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{bounded::SrqNum, ext::xrc::XrcdFile};
    /// # let proverbs::loopback::Pair { context, pd, pool, .. } = proverbs::loopback::pair()?;
    /// let can = context.abilities()?.can::<Xrc>().ok_or("the device has no XRC")?;
    /// let domain = context.open_xrcd(&can, XrcdFile::Private)?;
    /// let cq = context.create_cq(16)?;
    /// let mut srq: SharedReceiveQueue<Xrc> = domain.create_srq(&pd, &pool, &cq)?;
    /// srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// let number: SrqNum = srq.number(); // for the peers
    /// assert_eq!(cq.unbooked(), cq.capacity() - 16);
    /// # let _ = number;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`ProtectionDomain::create_srq`], and
    /// - [`ErrorKind::CqTooSmall`](crate::ErrorKind::CqTooSmall): the completion queue has too few
    ///   entries left ([R9.9](crate::guide::rules#r9-9)).
    /// - [`ErrorKind::ContextMismatch`](crate::ErrorKind::ContextMismatch): the completion queue or
    ///   the XRC domain belongs to another context ([R12.1](crate::guide::rules#r12-1)).
    #[doc(alias("ibv_srq_init_attr_mask", "ibv_create_srq_ex", "IBV_SRQT_XRC"))]
    #[doc(alias("IBV_SRQ_INIT_ATTR_TYPE", "IBV_SRQ_INIT_ATTR_PD", "IBV_SRQ_INIT_ATTR_XRCD"))]
    #[doc(alias(
        "IBV_SRQ_INIT_ATTR_CQ",
        "ibv_srq_init_attr_ex",
        "srq_context",
        "srq_type",
        "xrcd"
    ))]
    pub fn create_srq<E, M, C, L>(
        &self,
        pd: &ProtectionDomain<L>,
        pool: &impl FeedsSrq<C>,
        cq: &CqHandle<E, L>,
    ) -> Result<SharedReceiveQueue<Xrc, E, M, L>, Error>
    where
        E: Owned + Allows<call::FeedFrom<C>>,
        M: Limit,
        C: 'static,
        L: Threads,
    {
        self.create_srq_of(pd, pool.feed(), cq)
    }

    /// Creates an XRC shared receive queue for the `unsafe` path, with room for `max_wr` receives
    /// (`ibv_create_srq_ex`), like [`ProtectionDomain::create_raw_srq`] for other transports.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{ext::xrc::XrcdFile, memory::Raw, qp::Max};
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// let can = context.abilities()?.can::<Xrc>().ok_or("the device has no XRC")?;
    /// let domain = context.open_xrcd(&can, XrcdFile::Private)?;
    /// let cq: CompletionQueue<Raw> = context.create_cq(16)?;
    /// let srq = domain.create_raw_srq::<Max<1>, _>(&pd, 16, &cq)?;
    /// assert_eq!(cq.unbooked(), cq.capacity() - 16);
    /// # drop(srq);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`XrcDomain::create_srq`].
    #[doc(alias = "ibv_create_srq_ex")]
    pub fn create_raw_srq<M: Limit, L: Threads>(
        &self,
        pd: &ProtectionDomain<L>,
        max_wr: u32,
        cq: &CqHandle<Raw, L>,
    ) -> Result<SharedReceiveQueue<Xrc, Raw, M, L>, Error> {
        let feed = Feed::counted_by_caller("ibv_create_srq_ex", pd.id(), max_wr)?;
        self.create_srq_of(pd, feed, cq)
    }

    fn create_srq_of<E: Entry, M: Limit, L: Threads>(
        &self,
        pd: &ProtectionDomain<L>,
        feed: Feed,
        cq: &CqHandle<E, L>,
    ) -> Result<SharedReceiveQueue<Xrc, E, M, L>, Error> {
        let here = &pd.handle().parents().context;
        let is_one = Arc::ptr_eq(self.xrcd.parents(), here);
        Error::unless_one_context(VERB, "the XRC domain and the protection domain", is_one)?;
        let shared = cq.queue(VERB)?;
        let is_one = Arc::ptr_eq(&shared.handle().parents().context, here);
        Error::unless_one_context(VERB, "the completion queue and the protection domain", is_one)?;
        pd.create_any_srq(VERB, feed, |counters, init| {
            let asked = init.attr;
            shared.attach(VERB, counters, [0, asked.max_wr], Share::Receives)?;
            let refused = |errno| refused(VERB, errno, asked);
            let (pd, cq) = (pd.handle(), shared.handle());
            let control = pd.control();
            let mut ex =
                ibv_srq_init_attr_ex::xrc(init, pd.as_ptr(), self.xrcd.as_ptr(), cq.as_ptr());
            // SAFETY: the domains and the completion queue are alive, and belong to one context.
            let made = unsafe { (control.create_srq_ex)(&mut ex) };
            init.attr = ex.attr;
            let numbered = made.map_err(refused).and_then(|srq| {
                // SAFETY: the queue was just created, for XRC.
                let number = unsafe { (control.srq_num)(srq.as_ptr()) }.map_err(refused);
                number.and_then(|number| Ok((srq, SrqNum::try_from(number)?))).inspect_err(|_| {
                    // SAFETY: the queue is alive, and nothing else refers to it.
                    let _ = unsafe { (control.destroy_srq)(srq.as_ptr()) };
                })
            });
            let (srq, number) = numbered.inspect_err(|_| shared.detach(counters))?;
            let parents =
                handle::SrqParents { pd: pd.clone(), xrc: Some((self.xrcd.clone(), cq.clone())) };
            Ok(Made { srq, parents, completes_into: Some(shared.clone()), number })
        })
    }
}

impl<E: Entry, M: Limit, L: Threads> SharedReceiveQueue<Xrc, E, M, L> {
    /// The number with which initiators select this queue in
    /// [`to_srq`](crate::wr::WorkRequest::to_srq) (`ibv_get_srq_num`). Send it to the peers.
    #[doc(alias = "ibv_get_srq_num")]
    pub fn number(&self) -> SrqNum {
        self.core().number
    }
}
