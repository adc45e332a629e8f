//! One untyped owner for each kind of verbs object: `Drop` is implemented here and nowhere else.
//!
//! The typed shells (`QueuePair<T, S, P>` and the rest) change their type freely because they own
//! one of these and have no `Drop` of their own.

#![allow(unsafe_code)] // calls the control path

use std::any::Any;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use super::control::Control;
use super::lanes::ibv_td;
use super::memory::ibv_dm;
use super::provider::Provider;
use super::types::*;
use super::xrc::ibv_xrcd;

/// A C object that a control verb destroys.
pub trait Object: Sized {
    /// What must outlive this object (rules R11.8 and R12.1), or lives as long as it.
    type Parents;
    /// # Safety
    /// `this` is a live object of `control`'s provider, and is not used again if 0 is returned.
    unsafe fn destroy(control: &Control, this: *mut Self) -> c_int;
}

/// What keeps an object alive that was made elsewhere.
pub type Keeper = Box<dyn Any + Send + Sync>;

/// The owner of one C object.
///
/// # Invariants
/// - `ptr` is live until `destroyed` is set, and is of `control`'s provider. If `taken` is set,
///   object and `parents` belong to another owner.
/// - `parents` is dropped only after the object was destroyed: an object whose destruction the
///   provider refuses leaks together with all that it needs.
/// - An object with a `keeper` is not ours to destroy: it is live until the keeper is dropped,
///   which happens in the place of its destruction.
pub struct Handle<O: Object> {
    ptr: NonNull<O>,
    control: &'static Control,
    parents: ManuallyDrop<O::Parents>,
    /// Nobody looks into it, so that no panic leaves something broken to be seen.
    keeper: Option<AssertUnwindSafe<Keeper>>,
    destroyed: bool,
    /// Object and parents have another owner.
    taken: bool,
}

// SAFETY: verbs are thread-safe on any object (R17.1). The exceptions are excluded by the typed
// shells: posting and polling from two threads with one set of books by `&mut`, and any use of a
// lane's objects by another thread, since their shells are not `Send`.
unsafe impl<O: Object<Parents: Send>> Send for Handle<O> {}
// SAFETY: shared access gives the pointer and the parents, which are Sync. Verbs are thread-safe on
// any object (R17.1), but for those of lanes, whose shells are not `Sync`.
unsafe impl<O: Object<Parents: Sync>> Sync for Handle<O> {}

impl<O: Object> Handle<O> {
    /// # Safety
    /// `ptr` is a live object of `control`'s provider, and nothing else destroys it.
    pub unsafe fn new(ptr: NonNull<O>, control: &'static Control, parents: O::Parents) -> Self {
        // INVARIANT: the object is live and has no other owner (this function's contract).
        let parents = ManuallyDrop::new(parents);
        Handle { ptr, control, parents, keeper: None, destroyed: false, taken: false }
    }

    /// The handle of an object that `keeper` keeps alive.
    ///
    /// # Safety
    /// `ptr` is an object of `control`'s provider, and live until `keeper` is dropped.
    pub unsafe fn kept(
        ptr: NonNull<O>,
        control: &'static Control,
        parents: O::Parents,
        keeper: Keeper,
    ) -> Self {
        let parents = ManuallyDrop::new(parents);
        // INVARIANT: the keeper keeps the object alive (this function's contract).
        Handle {
            ptr,
            control,
            parents,
            keeper: Some(AssertUnwindSafe(keeper)),
            destroyed: false,
            taken: false,
        }
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
    /// The object is one of `control`'s provider.
    #[cfg(any(test, feature = "testing"))]
    pub unsafe fn replace_control(&mut self, control: &'static Control) {
        self.control = control;
    }

    pub fn parents(&self) -> &O::Parents {
        debug_assert!(!self.taken);
        &self.parents
    }

    /// Exchanges what must outlive the object, after a verb did so.
    pub fn set_parents(&mut self, parents: O::Parents) -> O::Parents {
        debug_assert!(!self.is_closed());
        std::mem::replace(&mut *self.parents, parents)
    }

    /// Whether the object was made elsewhere, and is not ours to destroy or change.
    pub fn is_kept(&self) -> bool {
        self.keeper.is_some()
    }

    pub fn is_closed(&self) -> bool {
        self.destroyed || self.taken
    }

    /// Moves the object to another owner. This one may not be used any more.
    pub fn take(&mut self) -> Self {
        debug_assert!(!self.destroyed && !self.taken);
        self.taken = true;
        // SAFETY: taken once: from now on this value neither uses nor drops the parents.
        let parents = ManuallyDrop::new(unsafe { ManuallyDrop::take(&mut self.parents) });
        let (ptr, control, keeper) = (self.ptr, self.control, self.keeper.take());
        Handle { ptr, control, parents, keeper, destroyed: false, taken: false }
    }

    /// Destroys the object now. If the provider refuses, returns the errno, and the object lives
    /// on.
    pub fn close(&mut self) -> Result<(), c_int> {
        if self.is_closed() {
            return Ok(());
        }
        if let Some(keeper) = self.keeper.take() {
            self.destroyed = true;
            drop(keeper);
            return Ok(());
        }
        // SAFETY: the object is live (invariant). It is marked as destroyed at once.
        match unsafe { O::destroy(self.control, self.ptr.as_ptr()) } {
            0 => {
                self.destroyed = true;
                Ok(())
            }
            errno => Err(errno),
        }
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
    ($c:ty, $verb:ident, $parents:ty) => {
        impl Object for $c {
            type Parents = $parents;

            unsafe fn destroy(control: &Control, this: *mut Self) -> c_int {
                // SAFETY: `this` is a live object of the provider of `control`, whose verb is
                // called, and is not used again if it answers 0 (this function's contract).
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

/// A queue pair that is a target of XRC: it has neither protection domain nor completion queues.
#[repr(transparent)]
pub struct TargetQp(ibv_qp);

/// What never changes while a context is open, asked for once and kept with it, so that no object
/// that is made from it costs another system call.
#[derive(Default)]
pub struct Unchanging {
    pub device: OnceLock<ibv_device_attr>,
    pub provider: OnceLock<Provider>,
    /// The port that was asked for first, and what it said: mostly no other is.
    pub port: OnceLock<(u8, Port)>,
    /// The others that were asked for.
    pub ports: Mutex<Vec<(u8, Port)>>,
    /// Whether the device is Soft-RoCE, if its provider does not say.
    pub is_soft_roce: OnceLock<bool>,
}

impl Context {
    /// Whether the device is Soft-RoCE, or may be.
    pub fn is_soft_roce(&self) -> bool {
        match self.provider() {
            Provider::Rxe => true,
            Provider::Loopback | Provider::Unknown => {
                // SAFETY: the handle keeps its context open.
                let is = || unsafe {
                    (self.control().is_software)(self.as_ptr())
                        && !super::device::is_iwarp(self.as_ptr())
                };
                *self.parents().is_soft_roce.get_or_init(is)
            }
            _ => false,
        }
    }
}

impl Context {
    /// The device's provider, asked for when the device was opened.
    pub fn provider(&self) -> Provider {
        // SAFETY: this handle keeps the context open.
        let ask = || unsafe { (self.control().provider)(self.as_ptr()) };
        *self.parents().provider.get_or_init(ask)
    }
}

/// What never changes of a port.
#[derive(Clone, Copy)]
pub struct Port {
    pub max_msg_sz: u32,
    pub link_layer: u8,
}

/// The objects that a protection domain needs.
pub struct PdParents {
    pub context: Arc<Context>,
    /// Those that a parent domain joins.
    pub joins: Option<Joined>,
}

/// What a parent domain joins.
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
    /// Those of one for XRC.
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
object!(ibv_qp, destroy_qp, QpParents);

impl Object for TargetQp {
    type Parents = Arc<Xrcd>;

    unsafe fn destroy(control: &Control, this: *mut Self) -> c_int {
        // SAFETY: it is a queue pair, and this function's contract is the verb's.
        unsafe { (control.destroy_qp)(this.cast()) }
    }
}
