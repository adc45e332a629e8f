//! Devices and their contexts.

#![allow(unsafe_code)] // calls the query verbs

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::ah::Gid;
use crate::bounded::Mtu;
use crate::channel::CompletionChannel;
use crate::cq::CompletionQueue;
use crate::entry::Entry;
use crate::error::{Error, ErrorKind, Refused};
use crate::pd::ProtectionDomain;
use crate::sys::types::{
    LINK_LAYER_ETHERNET, LINK_LAYER_INFINIBAND, ibv_atomic_cap, ibv_device_attr, ibv_gid,
    ibv_port_attr, ibv_port_state,
};
use crate::sys::{device, handle};

/// The names of this machine's RDMA devices (`ibv_get_device_list`). Empty where there is none.
pub fn devices() -> Result<Vec<String>, Error> {
    match device::names() {
        Ok(names) => Ok(names),
        // No kernel support at all is no device, not a failure.
        Err(libc::ENOSYS) => Ok(Vec::new()),
        Err(errno) => Err(Error::os("ibv_get_device_list", errno, "")),
    }
}

/// Whether a program with registered memory may fork (`ibv_is_fork_initialized`, R17.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkStatus {
    /// It may not: registered pages would be the child's or the parent's, by chance.
    Disabled,
    /// It may: the library keeps registered pages out of children (`ibv_fork_init`, or the environment).
    Enabled,
    /// It may: the kernel copies pinned pages.
    Unneeded,
}

/// What a fork would do to registered memory. A child may not use verbs objects in any case (R17.5).
pub fn fork_status() -> ForkStatus {
    match device::fork_status() {
        2 => ForkStatus::Unneeded,
        1 => ForkStatus::Enabled,
        _ => ForkStatus::Disabled,
    }
}

/// An open device.
#[derive(Clone)]
pub struct Context {
    pub(crate) handle: Arc<handle::Context>,
}

impl Context {
    /// Opens the device called `name` (`ibv_open_device`).
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
    pub fn alloc_pd(&self) -> Result<ProtectionDomain, Error> {
        ProtectionDomain::new(self)
    }

    /// Creates a completion queue with room for at least `cqe` completions, of queues whose entry type
    /// is `E` (`ibv_create_cq`).
    pub fn create_cq<E: Entry>(&self, cqe: u32) -> Result<CompletionQueue<E>, Error> {
        CompletionQueue::new(self, cqe, None)
    }

    /// As [`create_cq`](Self::create_cq), with events delivered to `channel`.
    pub fn create_cq_on<E: Entry>(
        &self,
        cqe: u32,
        channel: &CompletionChannel,
    ) -> Result<CompletionQueue<E>, Error> {
        CompletionQueue::new(self, cqe, Some(channel))
    }

    /// Creates a completion channel (`ibv_create_comp_channel`).
    pub fn create_comp_channel(&self) -> Result<CompletionChannel, Error> {
        CompletionChannel::new(self)
    }

    /// Closes the device. Objects made from it must be gone, or the context comes back.
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

/// What a device can do.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct DeviceAttr {
    pub fw_ver: String,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub phys_port_cnt: u8,
    pub max_mr_size: u64,
    pub max_qp: u32,
    /// Most work requests of a queue.
    pub max_qp_wr: u32,
    /// Most scatter/gather elements of a work request.
    pub max_sge: u32,
    pub max_cq: u32,
    /// Most entries of a completion queue.
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_pd: u32,
    /// Most reads and atomics that a queue pair may serve at once.
    pub max_qp_rd_atom: u32,
    /// Most reads and atomics that a queue pair may have outstanding.
    pub max_qp_init_rd_atom: u32,
    pub max_ah: u32,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_srq_sge: u32,
    pub max_pkeys: u16,
    /// What the device's atomics are atomic with (R4.9).
    pub atomic_cap: AtomicCap,
}

/// What a device's atomics are atomic with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicCap {
    /// There are none.
    None,
    /// With each other, on this device.
    Hca,
    /// With the processor's too.
    Global,
}

impl DeviceAttr {
    fn from_c(c: &ibv_device_attr) -> Self {
        let n = |value: i32| value.max(0) as u32;
        let fw_ver = c.fw_ver.iter().take_while(|&&b| b != 0).map(|&b| b as u8 as char).collect();
        DeviceAttr {
            fw_ver,
            vendor_id: c.vendor_id,
            vendor_part_id: c.vendor_part_id,
            phys_port_cnt: c.phys_port_cnt,
            max_mr_size: c.max_mr_size,
            max_qp: n(c.max_qp),
            max_qp_wr: n(c.max_qp_wr),
            max_sge: n(c.max_sge),
            max_cq: n(c.max_cq),
            max_cqe: n(c.max_cqe),
            max_mr: n(c.max_mr),
            max_pd: n(c.max_pd),
            max_qp_rd_atom: n(c.max_qp_rd_atom),
            max_qp_init_rd_atom: n(c.max_qp_init_rd_atom),
            max_ah: n(c.max_ah),
            max_srq: n(c.max_srq),
            max_srq_wr: n(c.max_srq_wr),
            max_srq_sge: n(c.max_srq_sge),
            max_pkeys: c.max_pkeys,
            atomic_cap: match c.atomic_cap {
                ibv_atomic_cap::IBV_ATOMIC_HCA => AtomicCap::Hca,
                ibv_atomic_cap::IBV_ATOMIC_GLOB => AtomicCap::Global,
                _ => AtomicCap::None,
            },
        }
    }
}

/// The state of a port.
#[derive(Clone, Debug)]
pub struct PortAttr {
    /// Whether the port can send and receive.
    pub is_active: bool,
    /// InfiniBand or Ethernet (RoCE).
    pub link_layer: LinkLayer,
    /// The port's largest MTU.
    pub max_mtu: Option<Mtu>,
    /// The MTU in use.
    pub active_mtu: Option<Mtu>,
    /// Entries of the GID table.
    pub gid_tbl_len: u32,
    /// Entries of the P_Key table.
    pub pkey_tbl_len: u16,
    /// Longest message, bytes.
    pub max_msg_sz: u32,
    /// The LID (0 on RoCE).
    pub lid: u16,
}

/// What a port is plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LinkLayer {
    InfiniBand,
    Ethernet,
    Unknown,
}

impl PortAttr {
    fn from_c(c: &ibv_port_attr) -> Self {
        PortAttr {
            is_active: c.state == ibv_port_state::IBV_PORT_ACTIVE,
            link_layer: match c.link_layer {
                LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
                LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
                _ => LinkLayer::Unknown,
            },
            max_mtu: Mtu::from_c(c.max_mtu),
            active_mtu: Mtu::from_c(c.active_mtu),
            gid_tbl_len: c.gid_tbl_len.max(0) as u32,
            pkey_tbl_len: c.pkey_tbl_len,
            max_msg_sz: c.max_msg_sz,
            lid: c.lid,
        }
    }
}
