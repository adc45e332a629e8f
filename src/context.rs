//! Devices and their contexts.

#![allow(unsafe_code)] // calls the query verbs

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::ah::Gid;
use crate::channel::CompletionChannel;
use crate::cq::CompletionQueue;
use crate::device_attr::{DeviceAttr, PortAttr};
use crate::entry::Entry;
use crate::error::{Error, ErrorKind, Refused};
use crate::pd::ProtectionDomain;
use crate::sys::types::{ibv_device_attr, ibv_gid, ibv_port_attr};
use crate::sys::{device, handle};

/// The names of this machine's RDMA devices (`ibv_get_device_list`). Empty where there is none.
///
/// ```
/// # use proverbs::*;
/// for name in devices()? {
///     println!("{name}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno of the list. A machine without RDMA support in its kernel has no devices, which is none.
pub fn devices() -> Result<Vec<String>, Error> {
    match device::names() {
        Ok(names) => Ok(names),
        // No kernel support at all is no device, not a failure.
        Err(libc::ENOSYS) => Ok(Vec::new()),
        Err(errno) => Err(Error::os("ibv_get_device_list", errno, "")),
    }
}

/// Whether a program with registered memory may fork (`ibv_is_fork_initialized`, R17.4).
///
/// ```
/// # use proverbs::*;
/// match fork_status() {
///     ForkStatus::Disabled => println!("do not fork while memory is registered"),
///     ForkStatus::Enabled | ForkStatus::Unneeded => println!("fork away"),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkStatus {
    /// It may not: registered pages would be the child's or the parent's, by chance.
    Disabled,
    /// It may: the library keeps registered pages out of children (`ibv_fork_init`, or the environment).
    Enabled,
    /// It may: the kernel copies pinned pages.
    Unneeded,
}

/// What a fork would do to registered memory, see [`ForkStatus`]. A child may not use verbs objects in any case (R17.5).
pub fn fork_status() -> ForkStatus {
    match device::fork_status() {
        2 => ForkStatus::Unneeded,
        1 => ForkStatus::Enabled,
        _ => ForkStatus::Disabled,
    }
}

/// An open device (`ibv_open_device`): queries, and what everything else is made from.
///
/// ```
/// # use proverbs::*;
/// let context = proverbs::loopback::Fabric::new().open_device(); // or Context::open("mlx5_0")?
/// assert_eq!(context.name(), "loop0");
/// assert!(context.query_device()?.max_qp_wr >= 16);
/// assert_eq!(context.query_pkey(1, 0)?, 0xffff); // the default partition
/// let channel = context.create_comp_channel()?;
/// let cq: CompletionQueue = context.create_cq_on(64, &channel)?; // events of `cq` come by `channel`
///
/// let context = context.destroy().unwrap_err().object; // objects of it exist: refused, and back
/// drop((cq, channel));
/// context.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Context {
    pub(crate) handle: Arc<handle::Context>,
}

impl Context {
    /// Opens the device called `name` (`ibv_open_device`).
    ///
    /// ```
    /// # use proverbs::*;
    /// let error = Context::open("nonesuch").unwrap_err();
    /// assert!(error.to_string().contains("no device is called nonesuch"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] with the names that there are, or [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    pub fn open(name: &str) -> Result<Context, Error> {
        const VERB: &str = "ibv_open_device";
        let found = match device::open(name) {
            Err(libc::ENOSYS) => Ok(None),
            other => other,
        };
        match found {
            Ok(Some(handle)) => Ok(Context { handle: Arc::new(handle) }),
            Ok(None) => {
                let there = devices().unwrap_or_default().join(", ");
                let there = if there.is_empty() { "there is none".into() } else { there };
                let what = format!("no device is called {name}; devices here: {there}");
                Err(Error::new(VERB, ErrorKind::NotFound(what)))
            }
            Err(errno) => Err(Error::os(VERB, errno, name)),
        }
    }

    #[cfg(feature = "loopback")]
    pub(crate) fn from_handle(handle: handle::Context) -> Self {
        Context { handle: Arc::new(handle) }
    }

    /// The device's name.
    pub fn name(&self) -> String {
        device::name_of(&self.handle)
    }

    /// What the device can do (`ibv_query_device`).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    pub fn query_device(&self) -> Result<DeviceAttr, Error> {
        let mut attr = MaybeUninit::<ibv_device_attr>::zeroed();
        let query = self.handle.control().query_device;
        // SAFETY: the context is live, and `attr` is a local.
        match unsafe { query(self.handle.as_ptr(), attr.as_mut_ptr()) } {
            // SAFETY: all zeroes is a value, and the verb filled it.
            0 => Ok(DeviceAttr::from_c(&unsafe { attr.assume_init() })),
            errno => Err(Error::os("ibv_query_device", errno, "")),
        }
    }

    /// The state of a port, counted from 1 (`ibv_query_port`).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { context, .. } = proverbs::guide::ends()?;
    /// let port = context.query_port(1)?;
    /// assert!(port.is_active && port.link_layer == LinkLayer::Ethernet);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if there is no such port.
    pub fn query_port(&self, port: u8) -> Result<PortAttr, Error> {
        let mut attr = MaybeUninit::<ibv_port_attr>::zeroed();
        let query = self.handle.control().query_port;
        // SAFETY: the context is live, and `attr` is a local.
        match unsafe { query(self.handle.as_ptr(), port, attr.as_mut_ptr()) } {
            // SAFETY: all zeroes is a value, and the verb filled it.
            0 => Ok(PortAttr::from_c(&unsafe { attr.assume_init() })),
            errno => Err(Error::os("ibv_query_port", errno, format!("port {port}"))),
        }
    }

    /// An entry of a port's GID table; all zeroes if it is not filled (`ibv_query_gid`).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { context, .. } = proverbs::guide::ends()?;
    /// let gid = context.query_gid(1, 1)?;
    /// assert_eq!(gid.to_string(), "::ffff:10.0.0.1");
    /// assert!(context.query_gid(1, 15)?.is_zero()); // not filled
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if there is no such port, or the table is shorter.
    pub fn query_gid(&self, port: u8, index: u8) -> Result<Gid, Error> {
        let mut gid = ibv_gid { raw: [0; 16] };
        let query = self.handle.control().query_gid;
        // SAFETY: the context is live, and `gid` is a local.
        match unsafe { query(self.handle.as_ptr(), port, index.into(), &mut gid) } {
            // SAFETY: every bit pattern is a GID.
            0 => Ok(Gid(unsafe { gid.raw })),
            errno => {
                let asked = format!("port {port}, GID index {index}");
                Err(Error::os("ibv_query_gid", errno, asked))
            }
        }
    }

    /// An entry of a port's P_Key table (`ibv_query_pkey`).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if there is no such port, or the table is shorter.
    pub fn query_pkey(&self, port: u8, index: u16) -> Result<u16, Error> {
        let mut pkey = 0;
        let query = self.handle.control().query_pkey;
        // SAFETY: the context is live, and `pkey` is a local.
        match unsafe { query(self.handle.as_ptr(), port, index.into(), &mut pkey) } {
            0 => Ok(pkey),
            errno => {
                let asked = format!("port {port}, P_Key index {index}");
                Err(Error::os("ibv_query_pkey", errno, asked))
            }
        }
    }

    /// Allocates a protection domain (`ibv_alloc_pd`).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    pub fn alloc_pd(&self) -> Result<ProtectionDomain, Error> {
        ProtectionDomain::new(self)
    }

    /// Creates a completion queue with room for at least `cqe` completions, of queues whose entry type
    /// is `E` (`ibv_create_cq`).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { context, .. } = proverbs::guide::ends()?;
    /// // Two queue pairs of depth 8 each way, and room for a drain of each.
    /// let cq: CompletionQueue = context.create_cq(2 * (8 + 1 + 8))?;
    /// assert!(cq.capacity() >= 34);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if `cqe` exceeds the device's `max_cqe`, [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno otherwise.
    pub fn create_cq<E: Entry>(&self, cqe: u32) -> Result<CompletionQueue<E>, Error> {
        CompletionQueue::new(self, cqe, None)
    }

    /// As [`create_cq`](Self::create_cq), with events delivered to `channel` (R13.7).
    ///
    /// # Errors
    /// As there, and [`ErrorKind::ContextMismatch`] if the channel is of another context (R12.1).
    pub fn create_cq_on<E: Entry>(
        &self,
        cqe: u32,
        channel: &CompletionChannel,
    ) -> Result<CompletionQueue<E>, Error> {
        CompletionQueue::new(self, cqe, Some(channel))
    }

    /// Creates a completion channel (`ibv_create_comp_channel`).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EMFILE if the process has no descriptor left.
    pub fn create_comp_channel(&self) -> Result<CompletionChannel, Error> {
        CompletionChannel::new(self)
    }

    /// Closes the device (`ibv_close_device`). Objects made from it must be gone, or the context comes back.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the context comes back: EBUSY if objects made from it exist.
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        match Arc::try_unwrap(self.handle) {
            Ok(mut handle) => match handle.close() {
                Ok(()) => Ok(()),
                Err(errno) => {
                    let error = Error::os("ibv_close_device", errno, "");
                    Err(Refused::new(Context { handle: Arc::new(handle) }, error))
                }
            },
            Err(handle) => {
                let error = Error::os("ibv_close_device", libc::EBUSY, "objects of it exist");
                Err(Refused::new(Context { handle }, error))
            }
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.name())
    }
}
