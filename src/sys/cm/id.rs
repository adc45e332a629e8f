//! The owner of an `rdma_cm_id`.

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::groups::Groups;
use super::{Channel, Failed, from_c, status, to_c};
use crate::sys::types::*;

/// Owner of an id.
///
/// # Invariants
/// - `ptr` is live until dropped, and on `channel`; its `context` is `key`, which no other id has.
/// - Its `qp` is null: librdmacm never touches a queue pair.
/// - `channel` is given up only after the id was destroyed; if that is refused, both leak.
pub(crate) struct Id {
    ptr: NonNull<raw::rdma_cm_id>,
    key: u64,
    channel: ManuallyDrop<Arc<Channel>>,
    groups: Groups,
}

// SAFETY: every call on the id is made under its channel's lock.
unsafe impl Send for Id {}
// SAFETY: as above; shared references only give the key and the descriptor.
unsafe impl Sync for Id {}

/// A number that no other id or group of this process has.
fn mint() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The number as C's user context.
fn context(key: u64) -> *mut c_void {
    ptr::without_provenance_mut(key as usize)
}

impl Id {
    pub(crate) fn create(channel: Arc<Channel>, ps: u32) -> Result<Self, c_int> {
        let key = mint();
        let mut id = ptr::null_mut();
        {
            let _guard = channel.lock();
            // SAFETY: the channel is live, its lock held; the out-pointer is a local.
            status(unsafe { raw::rdma_create_id(channel.as_ptr(), &mut id, context(key), ps) })?;
        }
        let ptr = NonNull::new(id).ok_or(libc::EIO)?;
        Ok(Id { ptr, key, channel: ManuallyDrop::new(channel), groups: Groups::default() })
    }

    /// # Safety
    /// `ptr` is a new id on `channel`, whose lock is held, that nobody else destroys.
    pub(super) unsafe fn adopt(ptr: NonNull<raw::rdma_cm_id>, channel: Arc<Channel>) -> Self {
        let key = mint();
        // SAFETY: the caller's contract; until now it was the listener's.
        unsafe { (*ptr.as_ptr()).context = context(key) };
        Id { ptr, key, channel: ManuallyDrop::new(channel), groups: Groups::default() }
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Makes a call on the id, under the lock.
    fn call(&self, f: impl FnOnce(*mut raw::rdma_cm_id) -> c_int) -> Result<(), c_int> {
        let _guard = self.channel.lock();
        status(f(self.ptr.as_ptr()))
    }

    pub(crate) fn bind(&mut self, address: SocketAddr) -> Result<(), c_int> {
        let mut address = to_c(address);
        // SAFETY: a live id; the address is a local.
        self.call(|id| unsafe { raw::rdma_bind_addr(id, (&raw mut address).cast()) })
    }

    pub(crate) fn resolve_addr(&mut self, to: SocketAddr, ms: c_int) -> Result<(), c_int> {
        let mut to = to_c(to);
        let to = (&raw mut to).cast();
        // SAFETY: a live id; the address is a local, and no source address may be null.
        self.call(|id| unsafe { raw::rdma_resolve_addr(id, ptr::null_mut(), to, ms) })
    }

    /// # Safety
    /// The address was resolved, so the id has a device (R16.2: librdmacm crashes without).
    pub(crate) unsafe fn resolve_route(&mut self, ms: c_int) -> Result<(), c_int> {
        // SAFETY: a live id, and the caller's contract.
        self.call(|id| unsafe { raw::rdma_resolve_route(id, ms) })
    }

    pub(crate) fn listen(&mut self, backlog: c_int) -> Result<(), c_int> {
        // SAFETY: a live id.
        self.call(|id| unsafe { raw::rdma_listen(id, backlog) })
    }

    /// # Safety
    /// The id has a device (R16.3), and the private data of `param` is readable.
    pub(crate) unsafe fn connect(&mut self, param: &mut raw::rdma_conn_param) -> Result<(), c_int> {
        // SAFETY: a live id, and the caller's contract.
        self.call(|id| unsafe { raw::rdma_connect(id, param) })
    }

    /// # Safety
    /// The id is that of a request, so it has a device, and the private data of `param` is readable.
    pub(crate) unsafe fn accept(&mut self, param: &mut raw::rdma_conn_param) -> Result<(), c_int> {
        // SAFETY: a live id, and the caller's contract.
        self.call(|id| unsafe { raw::rdma_accept(id, param) })
    }

    /// `data` has at most 148 bytes.
    pub(crate) fn reject(&mut self, data: &[u8]) -> Result<(), c_int> {
        let (at, len) = (data.as_ptr().cast(), data.len().min(148) as u8);
        // SAFETY: a live id; librdmacm copies `len` bytes.
        self.call(|id| unsafe { raw::rdma_reject(id, at, len) })
    }

    pub(crate) fn establish(&mut self) -> Result<(), c_int> {
        // SAFETY: a live id; it has no queue pair, which is what the call is for.
        self.call(|id| unsafe { raw::rdma_establish(id) })
    }

    /// # Safety
    /// The id has a device.
    pub(crate) unsafe fn disconnect(&mut self) -> Result<(), c_int> {
        // SAFETY: a live id, and the caller's contract.
        match self.call(|id| unsafe { raw::rdma_disconnect(id) }) {
            // The device was removed, and the connection with it: there is nothing left to end.
            Err(libc::ENXIO) => Ok(()),
            result => result,
        }
    }

    /// `rdma_notify` with COMM_EST: the peer's first message came before its acknowledgement.
    pub(crate) fn notify_comm_est(&mut self) -> Result<(), c_int> {
        let event = raw::ibv_event_type::IBV_EVENT_COMM_EST;
        // SAFETY: a live id.
        self.call(|id| unsafe { raw::rdma_notify(id, event) })
    }

    pub(crate) fn set_option(&mut self, option: c_int, value: &[u8]) -> Result<(), c_int> {
        /// `RDMA_OPTION_ID`, the only level that ids of this crate have.
        const LEVEL: c_int = 0;
        let (at, len) = (value.as_ptr().cast_mut().cast(), value.len());
        // SAFETY: a live id; the kernel reads `len` bytes.
        self.call(|id| unsafe { raw::rdma_set_option(id, LEVEL, option, at, len) })
    }

    /// Moves the id to another channel, with the events of it that wait.
    pub(crate) fn migrate(&mut self, to: Arc<Channel>) -> Result<(), c_int> {
        if Arc::ptr_eq(&self.channel, &to) {
            return Ok(());
        }
        {
            // Both, always in the same order.
            let (old, new) = (&**self.channel, &*to);
            let swap = ptr::from_ref(new) < ptr::from_ref(old);
            let (first, second) = if swap { (new, old) } else { (old, new) };
            let _first = first.lock();
            let _second = second.lock();
            // SAFETY: live id and channel; events are acknowledged under the lock, so none is open.
            status(unsafe { raw::rdma_migrate_id(self.ptr.as_ptr(), to.as_ptr()) })?;
        }
        *self.channel = to;
        Ok(())
    }

    /// Attributes for the queue pair of this id, to move it to `state`, and their mask.
    pub(crate) fn qp_attr(&self, state: u32) -> Result<(ibv_qp_attr, u32), c_int> {
        // SAFETY: all zeroes is a value of this struct of integers.
        let mut attr = unsafe { std::mem::zeroed::<ibv_qp_attr>() };
        attr.qp_state = state;
        let mut mask = 0;
        // SAFETY: a live id; both out-pointers are locals.
        self.call(|id| unsafe { raw::rdma_init_qp_attr(id, &mut attr, &mut mask) })?;
        // Some kernels leave bits that are not for programs.
        Ok((attr, mask as u32 & USER_QP_ATTR))
    }

    /// Joins a group; its key, and what is to be told if it fails. EADDRINUSE if it is joined already.
    ///
    /// # Safety
    /// The id has a device.
    pub(crate) unsafe fn join(&mut self, address: SocketAddr) -> Result<(u64, Failed), c_int> {
        if self.groups.has(address) {
            return Err(libc::EADDRINUSE);
        }
        if let Some(failed) = self.groups.failed(address) {
            let _ = self.leave(failed);
        }
        let key = mint();
        let mut c = to_c(address);
        let at = (&raw mut c).cast();
        // SAFETY: a live id, and the caller's contract; the address is a local.
        self.call(|id| unsafe { raw::rdma_join_multicast(id, at, context(key)) })?;
        Ok((key, self.groups.add(key, address)))
    }

    /// Leaves a group that was joined; `false` if it was not.
    pub(crate) fn leave(&mut self, key: u64) -> Result<bool, c_int> {
        // librdmacm forgets the group even if the kernel refuses, so this does as well.
        let Some(address) = self.groups.remove(key) else { return Ok(false) };
        let mut c = to_c(address);
        let address = (&raw mut c).cast();
        // SAFETY: a live id; the address is a local.
        self.call(|id| unsafe { raw::rdma_leave_multicast(id, address) })?;
        Ok(true)
    }

    /// The address, and that of the peer; where there is none yet, `None`.
    pub(crate) fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let _guard = self.channel.lock();
        let id = self.ptr.as_ptr();
        // SAFETY: a live id, whose lock is held; no reference is made.
        let source = unsafe { &raw const (*id).route.addr.src_addr_union };
        // SAFETY: as above.
        let peer = unsafe { &raw const (*id).route.addr.dst_addr_union };
        // SAFETY: a `sockaddr_storage`, zeroed where nothing is known.
        let source = unsafe { from_c(source.cast()) };
        // SAFETY: as above.
        let peer = unsafe { from_c(peer.cast()) };
        (source, peer)
    }

    /// The name of the device and the port, once the id has one.
    pub(crate) fn device(&self) -> Option<(String, u8)> {
        let _guard = self.channel.lock();
        let id = self.ptr.as_ptr();
        // SAFETY: a live id, whose lock is held.
        let verbs = NonNull::new(unsafe { (*id).verbs })?;
        // SAFETY: librdmacm keeps the context open while an id refers to it.
        let device = unsafe { (*verbs.as_ptr()).device };
        // SAFETY: as above.
        let port = unsafe { (*id).port_num };
        // SAFETY: the device is as live as its context.
        Some((unsafe { crate::sys::device::name(device) }, port))
    }

    /// Destroys it now; if librdmacm refuses, it comes back.
    pub(crate) fn destroy(self) -> Result<(), (Self, c_int)> {
        let mut this = ManuallyDrop::new(self);
        match this.close() {
            Ok(()) => Ok(()),
            Err(errno) => Err((ManuallyDrop::into_inner(this), errno)),
        }
    }

    /// After `Ok` the id must not be used again, drop included.
    fn close(&mut self) -> Result<(), c_int> {
        while let Some(key) = self.groups.last() {
            // librdmacm frees a group only when it is left.
            let _ = self.leave(key);
        }
        // SAFETY: live, destroyed once; events were acknowledged under the lock, so it does not wait.
        self.call(|id| unsafe { raw::rdma_destroy_id(id) })?;
        self.groups = Groups::default();
        // SAFETY: the id is gone, and this is called once.
        unsafe { ManuallyDrop::drop(&mut self.channel) };
        Ok(())
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // Refused, it leaks, and its channel with it.
        let _ = self.close();
    }
}

/// The bits of `ibv_qp_attr_mask` that verbs.h has.
const USER_QP_ATTR: u32 = 0x001f_ffff;
