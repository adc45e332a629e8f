//! Devices and their contexts.

#![allow(unsafe_code)] // calls the query verbs

use std::ptr::NonNull;
use std::sync::Arc;

use crate::device::{DeviceAttr, PortAttr, TransportType};
use crate::sys::absence::{self, Wanted};
use crate::sys::control::LIBIBVERBS;
use crate::sys::handle::Port;
use crate::sys::provider::Provider;
use crate::sys::refusal::{destroy, gid_refused, no_pkey, no_port};
use crate::sys::types::{ibv_context, ibv_device_attr};
use crate::sys::{device, handle, list};
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::gid::Gid;

/// An open device (`ibv_open_device`). All other objects are created from it.
///
/// ```
/// # use proverbs::prelude::*;
/// let context = proverbs::loopback::Fabric::new().open_device(); // or Context::open("mlx5_0")?
/// assert_eq!(context.name(), "loop0");
/// assert!(context.query_device()?.max_qp_wr >= 16);
/// assert_eq!(context.query_pkey(1, 0)?, 0xffff); // the default partition
/// let channel = context.create_comp_channel()?;
/// // Events of `cq` are delivered to `channel`.
/// let cq: CompletionQueue = context.cq(64).channel(&channel).create()?;
///
/// // It fails because objects of it exist, and returns the context.
/// let context = context.destroy().unwrap_err().into_object();
/// drop((cq, channel));
/// context.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_device", "ibv_port_attr", "ibv_gid", "ibv_context"))]
#[derive(Clone)]
pub struct Context {
    pub(crate) handle: Arc<handle::Context>,
}

/// [`Context::open`].
pub(crate) fn open(name: &str) -> Result<Context, Error> {
    const VERB: &str = "ibv_open_device";
    let errno = match device::open(name) {
        Ok(Some(handle)) => {
            let _provider = handle.provider().name();
            crate::sys::event!(
                INFO, "proverbs::device", "opened",
                device = name, provider = _provider, address = ?handle.ptr(),
            );
            return Ok(Context { handle: Arc::new(handle) });
        }
        Ok(None) => 0,
        Err(errno) => errno,
    };
    if let Some(absence) = absence::why(Wanted::Device(name), errno) {
        return Err(Error::new(VERB, ErrorKind::Absent(absence)));
    }
    if !matches!(errno, 0 | libc::ENOSYS) {
        return Err(Error::os(VERB, errno, name));
    }
    let names = list::names().unwrap_or_default().join(", ");
    let names = if names.is_empty() { "none" } else { &names };
    let what = format!("no device is called \"{name}\"; devices of this machine: {names}");
    Err(Error::new(VERB, ErrorKind::NotFound(what)))
}

impl Context {
    /// The provider of the device. The crate queried it from the kernel when it opened the device.
    /// Not every provider keeps every promise of the verbs, and the crate relies on some promises
    /// only if this provider keeps them: see [`Provider`].
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// assert_eq!(context.provider().name(), "loopback"); // "mlx5" on a ConnectX-7
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn provider(&self) -> Provider {
        self.handle.provider()
    }

    /// The device's name.
    #[doc(alias = "ibv_get_device_name")]
    pub fn name(&self) -> String {
        device::name_of(&self.handle)
    }

    /// The transport type of the device (`transport_type` of ibv_get_device_list(3)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::TransportType;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// assert_eq!(context.transport_type(), TransportType::InfiniBand); // and RoCE
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transport_type(&self) -> TransportType {
        // SAFETY: a device is live while a context of it is, and its type does not change.
        TransportType::from_c(unsafe { (*(*self.handle.as_ptr()).device).transport_type })
    }

    /// Returns the capabilities and limits of the device (`ibv_query_device`). They do not change
    /// while the device is open, and the crate itself queries them once per context.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias = "ibv_query_device")]
    pub fn query_device(&self) -> Result<DeviceAttr, Error> {
        let attr = self.handle.query_device();
        let attr = attr.map_err(|errno| Error::os("ibv_query_device", errno, ""))?;
        Ok(DeviceAttr::from_c(&attr))
    }

    /// Returns the state of a port, counted from 1 (`ibv_query_port`). The link layer, the longest
    /// message and the table sizes do not change while the device is open, and the crate itself
    /// queries them once. The state, the LIDs, the MTU, the rate and all other attributes may
    /// change.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::LinkLayer;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let port = context.query_port(1)?;
    /// assert!(port.is_active && port.link_layer == LinkLayer::Ethernet);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if there is no such port.
    #[doc(alias("ibv_query_port", "active_speed_ex"))]
    pub fn query_port(&self, port: u8) -> Result<PortAttr, Error> {
        let attr = self.handle.query_port(port).map_err(|errno| self.port_refused(port, errno))?;
        Ok(PortAttr::from_c(&attr))
    }

    /// Returns an entry of a port's GID table (`ibv_query_gid`); all zeroes if the entry is empty.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// let source = context.roce_v2_gid(1)?; // the entry to use, with its index
    /// let gid = context.query_gid(1, source.index())?;
    /// assert_eq!(gid, source.gid());
    /// assert!(context.query_gid(1, 15)?.is_zero()); // empty
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if the port or the index does
    /// not exist.
    #[doc(alias("ibv_query_gid", "subnet_prefix", "interface_id"))]
    pub fn query_gid(&self, port: u8, index: u8) -> Result<Gid, Error> {
        let query = self.handle.control().query_gid;
        // SAFETY: its handle keeps the context open.
        let gid = unsafe { query(self.handle.as_ptr(), port, index.into()) };
        let refused = |errno| gid_refused(&self.handle, "ibv_query_gid", port, index, errno);
        gid.map(Gid::from).map_err(refused)
    }

    /// Returns an entry of a port's P_Key table (`ibv_query_pkey`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EINVAL if the port or the index does
    /// not exist.
    #[doc(alias = "ibv_query_pkey")]
    pub fn query_pkey(&self, port: u8, index: u16) -> Result<u16, Error> {
        let query = self.handle.control().query_pkey;
        // SAFETY: its handle keeps the context open.
        unsafe { query(self.handle.as_ptr(), port, index.into()) }.map_err(|errno| {
            let why = no_port(&self.handle, port).or_else(|| no_pkey(&self.handle, port, index));
            let asked = why.unwrap_or_else(|| format!("port {port}, P_Key index {index}"));
            Error::os("ibv_query_pkey", errno, asked)
        })
    }

    /// Closes the device (`ibv_close_device`). Objects that were created from it must be destroyed
    /// first.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The context, with [`ErrorKind::Os`](crate::ErrorKind::Os) and the errno: EBUSY if objects
    /// that were created from it exist.
    #[doc(alias = "ibv_close_device")]
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        destroy("ibv_close_device", self.handle, "objects of it")
            .map_err(|refused| refused.map(|handle| Context { handle }))
    }

    /// A context that was opened outside this crate, such as by C code; [`raw`](crate::raw) has an
    /// example. The crate does not close it. Instead it drops `keep` when the returned value and
    /// all objects created from it are gone.
    ///
    /// # Safety
    /// - `context` is a context of libibverbs, and live until `keep` is dropped.
    /// - The crate may make its `async_fd` non-blocking and read from it
    ///   ([`events`](crate::Context::events)). If other code reads it too, each reader gets only
    ///   some of the events. Events of completion queues and shared receive queues that are created
    ///   from the value contain ids of this crate.
    /// - If the provider is siw, no zero-length READ is posted to its queue pairs
    ///   ([R24.18](crate::guide::rules#r24-18)).
    pub unsafe fn from_raw<K: Send + Sync + 'static>(
        context: NonNull<ibv_context>,
        keep: K,
    ) -> Context {
        // SAFETY: the context comes from libibverbs and lives until the keeper is dropped (this
        // function's contract).
        let handle = unsafe {
            handle::Context::kept(context, &LIBIBVERBS, Default::default(), Box::new(keep))
        };
        handle.provider();
        Context { handle: Arc::new(handle) }
    }

    /// The device's limits, queried once.
    pub(crate) fn limits(&self) -> Result<&ibv_device_attr, Error> {
        self.handle.device_attr().map_err(|errno| Error::os("ibv_query_device", errno, ""))
    }

    /// The attributes of a port that never change, queried once.
    pub(crate) fn port_limits(&self, port: u8) -> Result<Port, Error> {
        self.handle.port(port).map_err(|errno| self.port_refused(port, errno))
    }

    fn port_refused(&self, port: u8, errno: i32) -> Error {
        let asked = no_port(&self.handle, port).unwrap_or_else(|| format!("port {port}"));
        Error::os("ibv_query_port", errno, asked)
    }
}

impl_debug!(Context, |it| "Context({})", it.name());
