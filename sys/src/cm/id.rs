//! The owner of an `rdma_cm_id`.

// No model: it only increments numbers that identify ids.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::ptr;
use std::ptr::NonNull;
use std::sync::Arc;

use libc::sockaddr_storage;

use super::groups::Groups;
use super::{Calls, Channel, Failed, IbSocket, Seen, from_c, ib_from_c, status, to_c};
use crate::device::Identity;
use crate::handle;
use crate::sync::{AtomicU64, Ordering, global};
use crate::tuning::ibv_ece;
use crate::types::*;

/// The owner of an id.
pub struct Id {
    // Invariants:
    // - Unless it `is_gone`, `ptr` is live until dropped, and on `channel`. Its `context` points to
    //   `seen`, and was set with the lock of its channel held, or before the id could have an
    //   event.
    // - Its `qp` is null: librdmacm never touches a queue pair.
    // - `channel` and `seen` are released only after the id was destroyed. If destruction fails,
    //   they leak with it.
    pub(crate) ptr: NonNull<raw::rdma_cm_id>,
    seen: Arc<Seen>,
    channel: Arc<Channel>,
    groups: Groups,
    /// Whether C's id was destroyed: because a group could not be left, or at the end.
    is_gone: bool,
}

// SAFETY: every call on the id is made under its channel's lock, or needs none (`connect`).
unsafe impl Send for Id {}
// SAFETY: shared references give access only to the descriptor, which does not change, and to
// `seen`, which is atomic.
unsafe impl Sync for Id {}

/// A number that no other id or group of this process has.
fn mint() -> u64 {
    global! { static NEXT: AtomicU64 = AtomicU64::new(1); }
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The number of a group, as C's user context.
fn context(key: u64) -> *mut c_void {
    ptr::without_provenance_mut(key as usize)
}

/// The private data of a rejection: at most 148 bytes.
fn rejection(data: &[u8]) -> (*const c_void, u8) {
    (data.as_ptr().cast(), data.len().min(148) as u8)
}

/// Pointer to an id's `Seen`, as C's user context.
fn pointer_to(seen: &Arc<Seen>) -> *mut c_void {
    Arc::as_ptr(seen).cast_mut().cast()
}

impl Id {
    pub fn create(channel: Arc<Channel>, ps: u32) -> Result<Self, c_int> {
        let seen = Arc::new(Seen::of(mint()));
        let ptr = {
            let _guard = channel.lock();
            let create = channel.calls.create_id;
            // SAFETY: the channel is live and belongs to this provider, and its lock is held.
            unsafe { create(channel.as_ptr(), pointer_to(&seen), ps) }?
        };
        Ok(Id::new(ptr, seen, channel))
    }

    /// # Safety
    /// `ptr` is a new id on `channel`, whose lock is held, and nothing else destroys it.
    pub(crate) unsafe fn adopt(ptr: NonNull<raw::rdma_cm_id>, channel: Arc<Channel>) -> Self {
        let seen = Arc::new(Seen::of(mint()));
        // SAFETY: the id is live and, under the lock, not used elsewhere. Until now its context
        // pointed to the listener's `Seen`.
        unsafe { (*ptr.as_ptr()).context = pointer_to(&seen) };
        Id::new(ptr, seen, channel)
    }

    pub(crate) fn new(
        ptr: NonNull<raw::rdma_cm_id>,
        seen: Arc<Seen>,
        channel: Arc<Channel>,
    ) -> Self {
        event!(DEBUG, "proverbs::cm", "id created", id = seen.key,);
        Id { ptr, seen, channel, groups: Groups::default(), is_gone: false }
    }

    pub fn key(&self) -> u64 {
        self.seen.key
    }

    /// The record of events that ended this id, whichever thread took them.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    pub fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Makes a provider call on the id under the channel's lock; ENXIO if it is gone.
    fn call(&self, f: impl FnOnce(&Calls, *mut raw::rdma_cm_id) -> c_int) -> Result<(), c_int> {
        status(self.with(f).unwrap_or(libc::ENXIO))
    }

    /// Runs `f` on the id under the channel's lock, unless the id is gone.
    fn with<R>(&self, f: impl FnOnce(&Calls, *mut raw::rdma_cm_id) -> R) -> Option<R> {
        let _guard = self.channel.lock();
        (!self.is_gone).then(|| f(self.channel.calls, self.ptr.as_ptr()))
    }

    /// `address` comes from `to_c` or `ib_to_c`.
    pub fn bind(&mut self, mut address: sockaddr_storage) -> Result<(), c_int> {
        // SAFETY: the id is live. The address is a local.
        self.call(|cm, id| unsafe { (cm.bind_addr)(id, (&raw mut address).cast()) })
    }

    /// `to` comes from `to_c` or `ib_to_c`.
    pub fn resolve_addr(&mut self, mut to: sockaddr_storage, ms: c_int) -> Result<(), c_int> {
        let to = (&raw mut to).cast();
        // SAFETY: the id is live. The address is a local.
        self.call(|cm, id| unsafe { (cm.resolve_addr)(id, to, ms) })
    }

    /// Holds the channel's lock, although librdmacm may query ibacm, which can be slow. librdmacm
    /// reads the id's addresses for the query. Without the lock, another thread could take the
    /// event of an earlier, abandoned attempt, and librdmacm would then write the addresses.
    ///
    /// # Safety
    /// The address was resolved, so the id has a device (R16.2: librdmacm crashes otherwise).
    pub unsafe fn resolve_route(&mut self, ms: c_int) -> Result<(), c_int> {
        // SAFETY: the id is live and has a device (this function's contract).
        self.call(|cm, id| unsafe { (cm.resolve_route)(id, ms) })
    }

    pub fn listen(&mut self, backlog: c_int) -> Result<(), c_int> {
        // SAFETY: the id is live.
        self.call(|cm, id| unsafe { (cm.listen)(id, backlog) })
    }

    /// Does not hold the channel's lock: siw waits for TCP within the call (R24.5), and that must
    /// not block other ids or threads that take events.
    ///
    /// Another thread may take an event of this id during the call. librdmacm then writes only
    /// fields that the call does not read: the peer's options (CONNECT_RESPONSE), and the number of
    /// completed events. It writes other fields only with the address and route events, which were
    /// taken before.
    ///
    /// # Safety
    /// The route is resolved, so the id has a device (R16.3), and the private data of `param` is
    /// readable.
    pub unsafe fn connect(&mut self, param: &mut raw::rdma_conn_param) -> Result<(), c_int> {
        if self.is_gone {
            return Err(libc::ENXIO);
        }
        let connect = self.channel.calls.connect;
        // SAFETY: the id is live and has a device, and the private data is readable (this
        // function's contract). `&mut self` excludes other calls on it, and concurrent events do no
        // harm (see above).
        status(unsafe { connect(self.ptr.as_ptr(), param) })
    }

    /// # Safety
    /// The id was created by a request, so it has a device, and the private data of `param` is
    /// readable.
    pub unsafe fn accept(&mut self, param: &mut raw::rdma_conn_param) -> Result<(), c_int> {
        // SAFETY: the id is live and has a device, and the private data is readable (this
        // function's contract).
        self.call(|cm, id| unsafe { (cm.accept)(id, param) })
    }

    /// Offers options of the connection to the peer, with the next request or answer.
    pub fn set_local_ece(&mut self, mut ece: ibv_ece) -> Result<(), c_int> {
        // SAFETY: the id is live.
        self.call(|cm, id| unsafe { (cm.set_local_ece)(id, &mut ece) })
    }

    /// The options that the peer offered with its request or answer, if any.
    pub fn remote_ece(&self) -> Result<Option<ibv_ece>, c_int> {
        let mut ece = ibv_ece::default();
        // SAFETY: the id is live.
        match self.call(|cm, id| unsafe { (cm.get_remote_ece)(id, &mut ece) }) {
            Ok(()) => Ok(Some(ece).filter(|ece| ece.vendor_id != 0)),
            // A library without options never receives any.
            Err(libc::ENOSYS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Like [`reject`](Self::reject), with the reason that the options are not acceptable.
    pub fn reject_ece(&mut self, data: &[u8]) -> Result<(), c_int> {
        let (at, len) = rejection(data);
        // SAFETY: the id is live. librdmacm copies `len` bytes from `at`.
        self.call(|cm, id| unsafe { (cm.reject_ece)(id, at, len) })
    }

    /// Rejects the request, with `data` of at most 148 bytes.
    pub fn reject(&mut self, data: &[u8]) -> Result<(), c_int> {
        let (at, len) = rejection(data);
        // SAFETY: the id is live. librdmacm copies `len` bytes from `at`.
        self.call(|cm, id| unsafe { (cm.reject)(id, at, len) })
    }

    pub fn establish(&mut self) -> Result<(), c_int> {
        // SAFETY: the id is live. It has no queue pair, as the call requires.
        self.call(|cm, id| unsafe { (cm.establish)(id) })
    }

    /// # Safety
    /// The id has a device.
    pub unsafe fn disconnect(&mut self) -> Result<(), c_int> {
        // SAFETY: the id is live and has a device (this function's contract).
        match self.call(|cm, id| unsafe { (cm.disconnect)(id) }) {
            // The device was removed, and the connection with it, so there is nothing to
            // disconnect.
            Err(libc::ENXIO) => Ok(()),
            result => result,
        }
    }

    /// `rdma_notify` with COMM_EST: the peer's first message arrived before its acknowledgement.
    pub fn notify_comm_est(&self) -> Result<(), c_int> {
        // SAFETY: the id is live.
        self.call(|cm, id| unsafe { (cm.notify_comm_est)(id) })
    }

    pub fn set_option(&mut self, option: c_int, value: &[u8]) -> Result<(), c_int> {
        /// `RDMA_OPTION_ID`, the only level that this crate uses.
        const LEVEL: c_int = 0;
        let (at, len) = (value.as_ptr().cast_mut().cast(), value.len());
        // SAFETY: the id is live. The kernel reads `len` bytes from `at`.
        self.call(|cm, id| unsafe { (cm.set_option)(id, LEVEL, option, at, len) })
    }

    /// Moves the id to another channel, together with its pending events.
    pub fn migrate(&mut self, to: Arc<Channel>) -> Result<(), c_int> {
        if Arc::ptr_eq(&self.channel, &to) {
            return Ok(());
        }
        if !ptr::eq(self.channel.calls, to.calls) {
            return Err(libc::EINVAL);
        }
        if self.is_gone {
            return Err(libc::ENXIO);
        }
        {
            let _both = self.channel.lock.with(&to.lock);
            // SAFETY: id and channels are live and belong to one provider. Events are acknowledged
            // under the locks, which are held, so none is unacknowledged.
            status(unsafe { (to.calls.migrate_id)(self.ptr.as_ptr(), to.as_ptr()) })?;
        }
        to.wake();
        self.channel = to;
        Ok(())
    }

    /// The attributes and their mask for moving the queue pair of this id to `state`.
    pub fn qp_attr(&self, state: u32) -> Result<(ibv_qp_attr, u32), c_int> {
        let mut attr = ibv_qp_attr { qp_state: state, ..zeroed() };
        let mut mask = 0;
        // SAFETY: the id is live. Both out-pointers are locals.
        self.call(|cm, id| unsafe { (cm.init_qp_attr)(id, &mut attr, &mut mask) })?;
        // Some kernels set bits that programs must not use.
        Ok((attr, mask as u32 & USER_QP_ATTR))
    }

    /// Joins a group, optionally with flags (`enum rdma_cm_mc_join_flags`). Returns its key, and
    /// the flag that is set if the join fails or is abandoned. EADDRINUSE if it is joined already.
    ///
    /// # Safety
    /// The id has a device.
    pub unsafe fn join(
        &mut self,
        address: SocketAddr,
        flags: Option<u32>,
    ) -> Result<(u64, Failed), c_int> {
        if self.groups.has(address) {
            return Err(libc::EADDRINUSE);
        }
        if let Some(failed) = self.groups.failed(address) {
            let _ = self.leave(failed);
        }
        let key = mint();
        let mut c = to_c(address);
        let at = (&raw mut c).cast();
        // SAFETY: the id is live and has a device (this function's contract). The address is a
        // local.
        self.call(|cm, id| unsafe {
            match flags {
                None => (cm.join_multicast)(id, at, context(key)),
                Some(flags) => (cm.join_multicast_ex)(id, at, flags, context(key)),
            }
        })?;
        Ok((key, self.groups.add(key, address)))
    }

    /// Leaves a group; `false` if it was not joined. If the kernel refuses, as it does once the
    /// device was removed, the id is destroyed.
    ///
    /// librdmacm frees a group even if the kernel does not leave it. Events of the group may then
    /// still be queued on the channel, and librdmacm would look them up in freed memory. Only
    /// destroying the id removes them, so this happens before another event is taken.
    pub fn leave(&mut self, key: u64) -> Result<bool, c_int> {
        if self.is_gone {
            return Err(libc::ENXIO);
        }
        let Some(address) = self.groups.remove(key) else { return Ok(false) };
        let channel = Arc::clone(&self.channel);
        let _guard = channel.lock();
        // SAFETY: the id is not gone, and its lock is held. If leaving fails, the id is destroyed
        // below.
        let left = unsafe { self.leave_group(address) };
        if left.is_err() {
            // SAFETY: the id is not gone, and its lock has been held since before the group was
            // freed. Destruction fails only for an id that the kernel does not know, which has no
            // events.
            let _ = unsafe { self.end() };
        }
        left.map(|()| true)
    }

    /// # Safety
    /// The id is not gone, and its channel's lock is held. If leaving fails, the id is destroyed
    /// before the lock is released.
    unsafe fn leave_group(&mut self, address: SocketAddr) -> Result<(), c_int> {
        let mut c = to_c(address);
        let leave = self.channel.calls.leave_multicast;
        // SAFETY: the id is live, and its lock is held (this function's contract). The address is a
        // local.
        status(unsafe { leave(self.ptr.as_ptr(), (&raw mut c).cast()) })
    }

    /// Leaves all groups and destroys C's id.
    ///
    /// # Safety
    /// The id is not gone, and its channel's lock is held.
    unsafe fn end(&mut self) -> Result<(), c_int> {
        // librdmacm frees a group only when it is left.
        while let Some(address) = self.groups.pop() {
            // SAFETY: the id is not gone, its lock is held (this function's contract), and it is
            // destroyed below.
            let _ = unsafe { self.leave_group(address) };
        }
        // SAFETY: the id is live, its lock is held (this function's contract), and it is destroyed
        // once. Its events were acknowledged under the lock, so the call does not wait.
        status(unsafe { (self.channel.calls.destroy_id)(self.ptr.as_ptr()) })?;
        self.is_gone = true;
        event!(DEBUG, "proverbs::cm", "id destroyed", id = self.seen.key,);
        Ok(())
    }

    /// Queues a user event on the id's channel.
    pub fn write_event(&self, status: c_int, arg: u64) -> Result<(), c_int> {
        // SAFETY: the id is live.
        self.call(|cm, id| unsafe { (cm.write_cm_event)(id, status, arg) })
    }

    /// The local and the peer's address, if known.
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        self.addresses_by(from_c)
    }

    /// The native InfiniBand addresses of both ends, if they have any.
    pub fn ib_addresses(&self) -> (Option<IbSocket>, Option<IbSocket>) {
        self.addresses_by(ib_from_c)
    }

    fn addresses_by<T>(
        &self,
        from_c: unsafe fn(*const libc::sockaddr) -> Option<T>,
    ) -> (Option<T>, Option<T>) {
        // SAFETY: the id is live, and its lock is held. No reference is made to the unions. Each is
        // a `sockaddr_storage`, zeroed until its address is known.
        let known = self.with(|_, id| unsafe {
            let addr = &raw const (*id).route.addr;
            let source = from_c((&raw const (*addr).src_addr_union).cast());
            (source, from_c((&raw const (*addr).dst_addr_union).cast()))
        });
        known.unwrap_or_default()
    }

    /// The device's name and the port, once the id has them.
    pub fn device(&self) -> Option<(String, u8)> {
        let known = self.with(|_, id| {
            // SAFETY: the id is live, and its lock is held.
            let (verbs, port) = unsafe { ((*id).verbs, (*id).port_num) };
            let verbs = NonNull::new(verbs)?;
            // SAFETY: librdmacm keeps the context open while an id refers to it, and the device
            // lives as long as its context.
            Some((unsafe { crate::device::name((*verbs.as_ptr()).device) }, port))
        });
        known.flatten()
    }

    /// The identity of the id's device, if its provider is librdmacm.
    pub fn identity(&self) -> Option<Identity> {
        let known = self.with(|cm, id| {
            // SAFETY: the id is live, and its lock is held.
            let verbs = NonNull::new(unsafe { (*id).verbs })?;
            // SAFETY: librdmacm keeps the context open while an id refers to it, and it belongs to
            // libibverbs.
            cm.is_system.then(|| unsafe { Identity::of_context(verbs.as_ptr()) })
        });
        known.flatten()
    }

    /// Runs `f` on an id of this provider under its channel's lock; `None` if it belongs to another
    /// provider, or is gone.
    pub fn of_provider<R>(
        &self,
        calls: &'static Calls,
        f: impl FnOnce(*mut raw::rdma_cm_id) -> R,
    ) -> Option<R> {
        if !ptr::eq(self.channel.calls, calls) {
            return None;
        }
        self.with(|_, id| f(id))
    }

    /// Whether the id's device is iWARP; `false` before it has one.
    pub fn is_iwarp(&self) -> bool {
        // SAFETY: the id is live, and its lock is held. librdmacm keeps the context open while an
        // id refers to it.
        self.with(|_, id| unsafe { crate::device::is_iwarp((*id).verbs) }).unwrap_or_default()
    }

    /// The open context of the id's device, if its provider shares its contexts. (librdmacm does
    /// not.) ENXIO if the id is gone.
    pub fn context(&self) -> Result<Option<Arc<handle::Context>>, c_int> {
        // SAFETY: the id is live and belongs to this provider, and its lock is held.
        self.with(|cm, id| unsafe { (cm.context)(id) }).ok_or(libc::ENXIO)
    }

    /// Destroys the id now. If librdmacm refuses, returns it.
    pub fn destroy(mut self) -> Result<(), (Self, c_int)> {
        self.close().map_err(|errno| (self, errno))
    }

    fn close(&mut self) -> Result<(), c_int> {
        if self.is_gone {
            return Ok(());
        }
        let channel = Arc::clone(&self.channel);
        let _guard = channel.lock();
        // SAFETY: the id is not gone, and its lock is held.
        unsafe { self.end() }
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        if self.close().is_err() {
            // The id leaks, with its channel and its `Seen`.
            std::mem::forget((Arc::clone(&self.channel), Arc::clone(&self.seen)));
        }
    }
}

/// The bits of `ibv_qp_attr_mask` in verbs.h.
const USER_QP_ATTR: u32 = 0x001f_ffff;

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::stub::{self, answer, noting, seen};
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn a_failed_destroy_returns_the_id() {
        let id = noting(7);
        answer(libc::EBUSY);
        let (id, errno) = id.destroy().expect_err("it was refused");
        assert_eq!((id.key(), errno), (7, libc::EBUSY));
        assert_eq!(seen(), ["destroy_id"], "its channel stays");
        answer(0);
        let (channel, context) = (Arc::downgrade(id.channel()), Arc::downgrade(&id.seen));
        assert!(id.destroy().is_ok());
        assert_eq!(seen(), ["destroy_id", "destroy_event_channel"]);
        assert_eq!((channel.strong_count(), context.strong_count()), (0, 0));
        drop(noting(8));
        assert_eq!(seen(), ["destroy_id", "destroy_event_channel"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn an_id_stays_with_its_provider() {
        let (mut id, other) = (noting(7), stub::id(8, None));
        assert_eq!(id.migrate(other.channel().clone()), Err(libc::EINVAL));
        let (own, others) = (id.channel().calls, other.channel().calls);
        assert_eq!(id.of_provider(own, |_| ()), Some(()));
        assert_eq!(
            id.of_provider(others, |_| unreachable!("it belongs to another provider")),
            None::<()>
        );
        std::mem::forget(other);
    }

    /// librdmacm leaves groups by address.
    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn groups_are_left_once() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut id = noting(7);
        // SAFETY: the stub needs no device.
        let join = |id: &mut Id, text| unsafe { id.join(at(text), None) }.unwrap();
        let (_, failed) = join(&mut id, "239.77.0.1:1");
        failed.set();
        assert_eq!(seen(), ["join 239.77.0.1:1"]);
        // A failed join must be left before it is retried.
        let (first, _) = join(&mut id, "239.77.0.1:2");
        let (second, _) = join(&mut id, "239.77.0.2:1");
        assert_eq!(seen(), ["leave 239.77.0.1:1", "join 239.77.0.1:2", "join 239.77.0.2:1"]);
        assert_eq!((id.leave(first), id.leave(second)), (Ok(true), Ok(true)));
        assert_eq!(id.leave(first), Ok(false));
        assert_eq!(seen(), ["leave 239.77.0.1:2", "leave 239.77.0.2:1"]);
        // The id leaves its groups when it is dropped.
        join(&mut id, "239.77.0.3:1");
        assert!(id.destroy().is_ok());
        let all = ["join 239.77.0.3:1", "leave 239.77.0.3:1", "destroy_id"];
        assert_eq!(seen(), [&all[..], &["destroy_event_channel"]].concat());
    }

    /// librdmacm has freed the group, and would look up its events in freed memory.
    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn an_id_that_cannot_leave_a_group_is_destroyed_before_its_events_are_taken() {
        let mut id = noting(7);
        let other = noting(8);
        let at = |last| SocketAddr::from(([239, 77, 0, last], 1));
        // SAFETY: the stub needs no device.
        let join = |id: &mut Id, last| unsafe { id.join(at(last), None) }.map(|(key, _)| key);
        let (first, second) = (join(&mut id, 1).unwrap(), join(&mut id, 2).unwrap());
        assert_eq!(seen().len(), 2);
        stub::answer_leaving(libc::ENXIO);
        assert_eq!(id.leave(first), Err(libc::ENXIO));
        assert_eq!(seen(), ["leave 239.77.0.1:1", "leave 239.77.0.2:1", "destroy_id"]);

        // A destroyed id accepts no calls.
        let gone = Err(libc::ENXIO);
        assert_eq!((id.leave(second), join(&mut id, 3)), (Err(libc::ENXIO), Err(libc::ENXIO)));
        assert_eq!([id.listen(1), id.migrate(other.channel().clone())], [gone; 2]);
        assert_eq!((id.addresses(), id.ib_addresses()), ((None, None), (None, None)));
        assert_eq!((id.device(), id.is_iwarp(), id.context().err()), (None, false, gone.err()));
        assert!(id.destroy().is_ok());
        assert_eq!(seen(), ["destroy_event_channel"]);
        stub::answer_leaving(0);
    }

    /// siw waits for TCP, which may take minutes. Other ids on the channel must continue.
    ///
    /// Taking events of a channel does not wait for an id that connects.
    #[test]
    #[cfg_attr(miri, ignore = "poll(2)")]
    fn connecting_does_not_block_the_channel() {
        let mut id = stub::connecting(7);
        let channel = Arc::clone(id.channel());
        std::thread::scope(|scope| {
            let connecting = scope.spawn(move || {
                // SAFETY: the stub needs no device.
                let connected = unsafe { id.connect(&mut zeroed()) };
                connected.map(|()| id)
            });
            while stub::CONNECTING.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert!(matches!(channel.take_event(), Ok(None)));
            stub::CONNECTING.store(2, Ordering::SeqCst);
            assert!(connecting.join().unwrap().is_ok(), "the call waited for the event");
        });
    }

    /// If a program made the descriptor blocking, librdmacm would sleep with the lock held.
    #[test]
    #[cfg_attr(miri, ignore = "poll(2)")]
    fn events_are_read_only_when_the_descriptor_is_readable() {
        let id = noting(7);
        assert!(matches!(id.channel().take_event(), Ok(None)));
        assert_eq!(seen(), [""; 0]);
    }
}
