//! One untyped owner for each kind of verbs object: `Drop` is implemented here and nowhere else.
//!
//! The typed shells (`QueuePair<T, S, P>` and the rest) own one of these and do not implement
//! `Drop`, so they can change their type freely.

// No model: each attribute that a device never changes is copied once. The map of ports is read and
// changed under its lock, and no other lock is taken while it is held.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::control::{Answer, Control};
use super::extended::PortAttr;
use super::lanes::ibv_td;
use super::memory::ibv_dm;
use super::provider::Provider;
use super::types::*;
use super::xrc::ibv_xrcd;
use crate::sync::{Mutex, lock};

/// A C object that a control verb destroys.
///
/// # Safety
/// Verbs may be called on it from any thread (R17.1), unless it is in a lane.
pub unsafe trait Object: Sized {
    /// The objects that must outlive this one (rules R11.8 and R12.1), or live as long as it.
    type Parents;
    /// Its name in C.
    const NAME: &'static str;
    /// The number of a queue pair.
    ///
    /// # Safety
    /// `this` is live.
    unsafe fn qp_num(_this: *const Self) -> Option<u32> {
        None
    }
    /// # Safety
    /// `this` is a live object of `control`'s provider, and is not used again if it succeeds.
    unsafe fn destroy(control: &Control, this: *mut Self) -> Answer;
}

/// The value that keeps a foreign object alive.
pub type KeepAlive = Box<dyn Any + Send + Sync>;

/// The owner of one C object.
pub struct Handle<O: Object> {
    // Invariants:
    // - `ptr` is live until `destroyed` is set, and belongs to `control`'s provider. If `taken` is
    //   set, another owner has the object and `parents`.
    // - `parents` is dropped only after the object was destroyed. An object that the provider
    //   refuses to destroy leaks together with its parents.
    // - An object with a `keeper` is not destroyed here: it is live until the keeper is dropped,
    //   which replaces its destruction.
    ptr: NonNull<O>,
    control: &'static Control,
    parents: ManuallyDrop<O::Parents>,
    /// No code looks into it, so a panic cannot expose a broken state.
    keeper: Option<AssertUnwindSafe<KeepAlive>>,
    destroyed: bool,
    /// Another owner has the object and its parents.
    taken: bool,
}

// SAFETY: verbs are thread-safe on any object (R17.1). The typed shells exclude the exceptions:
// `&mut` prevents posting and polling from two threads with one set of counters, and shells of lane
// objects are not `Send`.
unsafe impl<O: Object<Parents: Send>> Send for Handle<O> {}
// SAFETY: shared access gives the pointer and the parents, which are Sync. Verbs are thread-safe on
// any object (R17.1), except objects of lanes, whose shells are not `Sync`.
unsafe impl<O: Object<Parents: Sync>> Sync for Handle<O> {}

impl<O: Object> Handle<O> {
    /// # Safety
    /// - `ptr` is a live object of `control`'s provider, and nothing else destroys it.
    /// - The functions of `control` keep the contracts of their C namesakes ([`Control`]).
    /// - `parents` are the objects that it was made from.
    /// - If it is in a lane, the caller keeps this value, and references to it, on the lane's
    ///   thread.
    pub unsafe fn new(ptr: NonNull<O>, control: &'static Control, parents: O::Parents) -> Self {
        // INVARIANT: the object is live and has no other owner (this function's contract).
        let handle = Handle::of(ptr, control, parents, None);
        event!(
            DEBUG, "proverbs::object", "created",
            object = O::NAME, address = ?ptr,
            // SAFETY: the object is live (this function's contract).
            qp_num = unsafe { O::qp_num(ptr.as_ptr()) },
        );
        handle
    }

    /// The handle of an object that `keeper` keeps alive.
    ///
    /// # Safety
    /// As for [`new`](Self::new), but another owner destroys the object, and it is live until
    /// `keeper` is dropped.
    pub unsafe fn kept(
        ptr: NonNull<O>,
        control: &'static Control,
        parents: O::Parents,
        keeper: KeepAlive,
    ) -> Self {
        // INVARIANT: the keeper keeps the object alive (this function's contract).
        Handle::of(ptr, control, parents, Some(AssertUnwindSafe(keeper)))
    }

    fn of(
        ptr: NonNull<O>,
        control: &'static Control,
        parents: O::Parents,
        keeper: Option<AssertUnwindSafe<KeepAlive>>,
    ) -> Self {
        let parents = ManuallyDrop::new(parents);
        Handle { ptr, control, parents, keeper, destroyed: false, taken: false }
    }

    pub fn as_ptr(&self) -> *mut O {
        self.ptr.as_ptr()
    }

    pub fn ptr(&self) -> NonNull<O> {
        self.ptr
    }

    pub fn control(&self) -> &'static Control {
        self.control
    }

    /// Test only: replaces the provider.
    ///
    /// # Safety
    /// The object belongs to `control`'s provider.
    #[cfg(any(test, feature = "testing"))]
    pub unsafe fn replace_control(&mut self, control: &'static Control) {
        self.control = control;
    }

    /// The object, which is live until this value is closed.
    ///
    /// # Panics
    /// If the object was destroyed, or has another owner.
    pub fn live(&self) -> *mut O {
        assert!(!self.is_closed(), "the object was destroyed or moved to another owner");
        self.ptr.as_ptr()
    }

    /// The objects that must outlive this one.
    ///
    /// # Panics
    /// If the object has another owner.
    pub fn parents(&self) -> &O::Parents {
        assert!(!self.taken, "the object has another owner");
        &self.parents
    }

    /// Replaces the parents, after a verb changed them.
    ///
    /// # Safety
    /// The object needs `parents`, and does not need its former parents any more.
    pub unsafe fn set_parents(&mut self, parents: O::Parents) -> O::Parents {
        debug_assert!(!self.is_closed());
        std::mem::replace(&mut *self.parents, parents)
    }

    /// Whether the object was made elsewhere, so that it must not be destroyed or changed here.
    pub fn is_kept(&self) -> bool {
        self.keeper.is_some()
    }

    pub fn is_closed(&self) -> bool {
        self.destroyed || self.taken
    }

    /// Moves the object to another owner. This handle counts as closed from here on.
    ///
    /// # Panics
    /// If this handle is closed.
    pub fn take(&mut self) -> Self {
        assert!(!self.is_closed(), "the object was destroyed or moved to another owner");
        self.taken = true;
        // SAFETY: taken once: from now on this value neither uses nor drops the parents.
        let parents = unsafe { ManuallyDrop::take(&mut self.parents) };
        Handle::of(self.ptr, self.control, parents, self.keeper.take())
    }

    /// Destroys the object now. If the provider refuses, returns the errno, and the object stays
    /// alive.
    pub fn close(&mut self) -> Result<(), c_int> {
        if self.is_closed() {
            return Ok(());
        }
        if let Some(keeper) = self.keeper.take() {
            self.destroyed = true;
            drop(keeper);
            return Ok(());
        }
        #[cfg(feature = "tracing")]
        // SAFETY: the object is live (invariant).
        let qp_num = unsafe { O::qp_num(self.ptr.as_ptr()) };
        // SAFETY: the object is live (invariant). It is marked as destroyed at once.
        let destroyed = unsafe { O::destroy(self.control, self.ptr.as_ptr()) };
        destroyed.inspect_err(|_errno| {
            event!(
                WARN, "proverbs::object", "not destroyed",
                object = O::NAME, address = ?self.ptr, qp_num, errno = _errno,
            );
        })?;
        self.destroyed = true;
        event!(
            DEBUG, "proverbs::object", "destroyed",
            object = O::NAME, address = ?self.ptr, qp_num,
        );
        Ok(())
    }
}

impl<O: Object> Drop for Handle<O> {
    fn drop(&mut self) {
        if !self.taken && self.close().is_ok() {
            // SAFETY: dropped once, here, and only after the object is gone.
            unsafe { ManuallyDrop::drop(&mut self.parents) };
        }
    }
}

macro_rules! object {
    ($c:ident, $verb:ident, $parents:ty $(, $number:ident)?) => {
        // SAFETY: the type is an object of verbs.h.
        unsafe impl Object for $c {
            type Parents = $parents;
            const NAME: &'static str = stringify!($c);

            $(unsafe fn $number(this: *const Self) -> Option<u32> {
                // SAFETY: the queue pair is live (this function's contract), and its number was
                // written at creation.
                Some(unsafe { (*this).$number })
            })?

            unsafe fn destroy(control: &Control, this: *mut Self) -> Answer {
                // SAFETY: `this` is a live object of the provider of `control`, whose verb is
                // called, and is not used again if it succeeds (this function's contract).
                unsafe { (control.$verb)(this) }
            }
        }
    };
}

pub type Context = Handle<ibv_context>;
pub type Pd = Handle<ibv_pd>;
pub type Td = Handle<ibv_td>;
pub type Mr = Handle<ibv_mr>;
pub type Dm = Handle<ibv_dm>;
pub type Mw = Handle<ibv_mw>;
pub type Ah = Handle<ibv_ah>;
pub type Channel = Handle<ibv_comp_channel>;
pub type Cq = Handle<ibv_cq>;
pub type Srq = Handle<ibv_srq>;
pub type Qp = Handle<ibv_qp>;
pub type Xrcd = Handle<ibv_xrcd>;
pub type XrcTarget = Handle<TargetQp>;

/// A queue pair that is an XRC target: it has neither protection domain nor completion queues.
#[repr(transparent)]
pub struct TargetQp(ibv_qp);

/// Attributes that never change while a context is open. They are queried once and stored with it,
/// so that making an object costs no extra system call.
#[derive(Default)]
pub struct Unchanging {
    device: OnceLock<ibv_device_attr>,
    provider: OnceLock<Provider>,
    /// By port number, if queried before.
    ports: Mutex<BTreeMap<u8, Port>>,
    /// Whether the device is Soft-RoCE, if its provider does not determine that.
    is_soft_roce: OnceLock<bool>,
}

impl Context {
    /// The attributes of the device now, or the errno.
    pub fn query_device(&self) -> Result<ibv_device_attr, c_int> {
        // SAFETY: the context is live.
        unsafe { (self.control.query_device)(self.live()) }
    }

    /// The attributes of the device, queried once.
    #[inline]
    pub fn device_attr(&self) -> Result<&ibv_device_attr, c_int> {
        let known = &self.parents().device;
        if let Some(attr) = known.get() {
            return Ok(attr);
        }
        let attr = self.query_device()?;
        Ok(known.get_or_init(|| attr))
    }

    /// The attributes of a port now, or the errno.
    pub fn query_port(&self, port: u8) -> Result<PortAttr, c_int> {
        // SAFETY: the context is live.
        unsafe { (self.control.query_port)(self.live(), port) }
    }

    /// The constant attributes of a port, if they were queried before.
    pub fn known_port(&self, port: u8) -> Option<Port> {
        lock(&self.parents().ports).get(&port).copied()
    }

    /// The constant attributes of a port, queried once.
    pub fn port(&self, port: u8) -> Result<Port, c_int> {
        if let Some(limits) = self.known_port(port) {
            return Ok(limits);
        }
        let attr = self.query_port(port)?;
        let attr = attr.get();
        let limits = Port { max_msg_sz: attr.max_msg_sz, link_layer: attr.link_layer };
        lock(&self.parents().ports).insert(port, limits);
        Ok(limits)
    }
}

impl Context {
    /// Whether the device is Soft-RoCE, or may be.
    pub fn is_soft_roce(&self) -> bool {
        match self.provider() {
            Provider::Rxe => true,
            Provider::Loopback | Provider::Unknown => {
                // SAFETY: the handle keeps its context open.
                let is = || unsafe {
                    (self.control().is_software)(self.live())
                        && !super::device::is_iwarp(self.live())
                };
                *self.parents().is_soft_roce.get_or_init(is)
            }
            _ => false,
        }
    }
}

impl Context {
    /// The device's provider, determined when the device was opened.
    pub fn provider(&self) -> Provider {
        // SAFETY: this handle keeps the context open.
        let ask = || unsafe { (self.control().provider)(self.live()) };
        *self.parents().provider.get_or_init(ask)
    }
}

/// The constant attributes of a port.
#[derive(Clone, Copy)]
pub struct Port {
    pub max_msg_sz: u32,
    pub link_layer: u8,
}

/// The objects that a protection domain needs.
pub struct PdParents {
    pub context: Arc<Context>,
    /// The domains that a parent domain joins.
    pub joins: Option<Joined>,
}

/// The domains that a parent domain joins.
pub struct Joined {
    #[allow(dead_code)] // held, not read
    pub td: Td,
    pub pd: Arc<Pd>,
}

impl From<Arc<Context>> for PdParents {
    fn from(context: Arc<Context>) -> Self {
        PdParents { context, joins: None }
    }
}

/// The objects that a queue pair needs.
#[allow(dead_code)] // held, not read
pub struct QpParents {
    pub pd: Arc<Pd>,
    pub send_cq: Arc<Cq>,
    pub recv_cq: Arc<Cq>,
}

/// The objects that a shared receive queue needs.
pub struct SrqParents {
    pub pd: Arc<Pd>,
    /// The domain and completion queue of an XRC queue.
    #[allow(dead_code)] // held, not read
    pub xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
}

impl From<Arc<Pd>> for SrqParents {
    fn from(pd: Arc<Pd>) -> Self {
        SrqParents { pd, xrc: None }
    }
}

/// The objects that a completion queue needs.
#[allow(dead_code)] // held, not read
pub struct CqParents {
    pub context: Arc<Context>,
    pub channel: Option<Arc<Channel>>,
}

object!(ibv_context, close_device, Unchanging);
object!(ibv_pd, dealloc_pd, PdParents);
object!(ibv_td, dealloc_td, Arc<Context>);
object!(ibv_mr, dereg_mr, Arc<Pd>);
object!(ibv_dm, free_dm, Arc<Context>);
object!(ibv_ah, destroy_ah, Arc<Pd>);
object!(ibv_comp_channel, destroy_comp_channel, Arc<Context>);
object!(ibv_cq, destroy_cq, CqParents);
object!(ibv_srq, destroy_srq, SrqParents);
object!(ibv_xrcd, close_xrcd, Arc<Context>);
object!(ibv_qp, destroy_qp, QpParents, qp_num);

// SAFETY: a queue pair is an object of verbs.h.
unsafe impl Object for TargetQp {
    type Parents = Arc<Xrcd>;
    const NAME: &'static str = "ibv_qp";

    unsafe fn qp_num(this: *const Self) -> Option<u32> {
        // SAFETY: a live queue pair, as in `destroy`.
        unsafe { ibv_qp::qp_num(this.cast()) }
    }

    unsafe fn destroy(control: &Control, this: *mut Self) -> Answer {
        // SAFETY: it is a queue pair, and this function has the contract of the verb.
        unsafe { (control.destroy_qp)(this.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::control::LIBIBVERBS;
    use super::*;

    static STUB: Control = Control {
        close_device: |_| Ok(()),
        query_device: |_| Ok(zeroed()),
        query_port: |_, _| Ok(PortAttr::default()),
        provider: |_| Provider::Unknown,
        ..LIBIBVERBS
    };

    fn context() -> Context {
        let fake = NonNull::new(crate::tests::context::<4>(32, &[])).unwrap();
        // SAFETY: the fake is leaked, and the stub does not use it.
        unsafe { Context::new(fake, &STUB, Unchanging::default()) }
    }

    /// Safe code may close a handle, or move its object away. The handle then gives no access to
    /// the object or its parents.
    #[test]
    fn a_closed_handle_gives_no_access() {
        let uses: [fn(&Context); 5] = [
            |context| _ = context.live(),
            |context| _ = context.query_device(),
            |context| _ = context.query_port(1),
            |context| _ = context.provider(),
            |context| _ = crate::device::name_of(context),
        ];
        let (mut closed, mut taken) = (context(), context());
        uses.iter().for_each(|use_it| use_it(&closed));
        closed.close().unwrap();
        drop(taken.take());
        let mut unasked = context();
        unasked.close().unwrap();
        for (i, use_it) in uses.iter().enumerate() {
            for context in [&unasked, &taken] {
                let used = catch_unwind(AssertUnwindSafe(|| use_it(context)));
                assert!(used.is_err(), "use {i}");
            }
        }
        assert!(catch_unwind(AssertUnwindSafe(|| _ = taken.parents())).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(taken.take()))).is_err());
    }
}
