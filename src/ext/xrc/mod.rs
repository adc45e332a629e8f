//! XRC: initiators and targets, domains, and shared receive queues with numbers. [`XrcTarget`] has
//! an example.

#![allow(unsafe_code)] // two verbs

mod attr;
mod initiator;
mod srq;
mod target;

pub use attr::{XrcReturn, XrcRtr, XrcRts, XrcRtsOptional, XrcSqd, XrcTargetRtr, XrcTargetRts};
pub use target::{TargetTransition, XrcTarget};

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use crate::device::attr_ex::sealed;
use crate::device::{Ability, Can, Context, DeviceAttrEx, DeviceCap};
use crate::sys::handle;
use crate::sys::refusal::destroy;
use crate::sys::xrc::ibv_xrcd;
use crate::terms::error::{Error, Refused};
use crate::terms::transport::Xrc;

impl sealed::Sealed for Xrc {}

/// The device supports XRC (`IBV_DEVICE_XRC`).
impl Ability for Xrc {
    const NAME: &'static str = "XRC";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.device.device_cap_flags.contains(DeviceCap::XRC)
    }
}

/// Selects the processes that share an [`XrcDomain`] (`fd` and `oflags` of ibv_open_xrcd(3)). The
/// file is a name: processes of one host that open the same file share a domain on the same device.
/// The file is neither read nor written, and can be closed.
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

/// An XRC domain (`ibv_open_xrcd`), which a target and its shared receive queues share
/// ([R26.4](crate::guide::rules#r26-4)). One process or several processes of a host can open it.
///
/// [`XrcTarget`](crate::ext::xrc::XrcTarget) has an example. Its targets and shared receive queues
/// keep it open.
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
        can.check_is_of(self, VERB, "the proof of XRC and the context")?;
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

impl XrcDomain {
    pub(crate) fn handle(&self) -> &Arc<handle::Xrcd> {
        &self.xrcd
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_xrcd {
        self.xrcd.as_ptr()
    }

    /// Closes the domain (`ibv_close_xrcd`). Its targets and shared receive queues must be
    /// destroyed first. Other processes may still have some.
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
}

impl_debug!(XrcDomain, |_| "XrcDomain");
