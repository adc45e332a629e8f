//! XRC domains.

#![allow(unsafe_code)] // two verbs

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

/// The device has XRC (`IBV_DEVICE_XRC`).
impl Ability for Xrc {
    const NAME: &'static str = "XRC";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.device.device_cap_flags.contains(DeviceCap::XRC)
    }
}

/// Who else is in an [`XrcDomain`] (`fd` and `oflags` of ibv_open_xrcd(3)). The file is a name, by
/// which processes of one host find each other's domain on the same device: nothing is read from it
/// or written to it, and it need not stay open.
///
/// ```
/// # use proverbs::prelude::*;
/// use std::os::fd::AsFd;
/// use proverbs::device::XrcdFile;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let can = context.abilities()?.can::<Xrc>().ok_or("no XRC")?;
/// let file = std::fs::File::open("Cargo.toml")?; // any that the processes agree on
/// // Nobody has opened the domain of this file:
/// assert!(context.open_xrcd(&can, XrcdFile::Existing(file.as_fd())).is_err());
/// let first = context.open_xrcd(&can, XrcdFile::New(file.as_fd()))?;
/// // From here on it exists. Another process may join it, and so may this one.
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
    /// Nobody: the domain has no file (-1).
    Private,
    /// All who open the domain of this file. It is made if there is none (`O_CREAT`).
    Any(BorrowedFd<'f>),
    /// Those who open it later: an error if somebody has opened it already (`O_CREAT | O_EXCL`).
    New(BorrowedFd<'f>),
    /// Those who opened it before: an error if nobody has.
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

/// An XRC domain (`ibv_open_xrcd`): what a target and the shared receive queues that it delivers to
/// have in common ([R26.4](crate::guide::rules#r26-4)), in one process or in several of a host.
///
/// [`XrcTarget`](crate::qp::XrcTarget) has an example. Its targets and shared receive queues keep
/// it open.
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
    /// use proverbs::device::{XrcDomain, XrcdFile};
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let can = context.abilities()?.can::<Xrc>().ok_or("the device has no XRC")?;
    /// let domain: XrcDomain = context.open_xrcd(&can, XrcdFile::Private)?;
    /// domain.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ContextMismatch`](crate::ErrorKind::ContextMismatch) if `can` is of another context,
    /// otherwise [`Os`](crate::ErrorKind::Os) with the errno: EAGAIN if nobody has opened the
    /// file's domain, EINVAL if somebody has and `file` is [`New`](XrcdFile::New), EOPNOTSUPP if
    /// the library lacks the verb.
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

    /// Closes the domain (`ibv_close_xrcd`). Its targets and shared receive queues must be gone;
    /// those of other processes need not.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os), and the domain is given back: EBUSY if objects of it exist.
    #[doc(alias = "ibv_close_xrcd")]
    pub fn close(self) -> Result<(), Refused<Self>> {
        destroy("ibv_close_xrcd", self.xrcd, "objects of it")
            .map_err(|refused| refused.map(|xrcd| XrcDomain { xrcd }))
    }
}

impl_debug!(XrcDomain, |_| "XrcDomain");
