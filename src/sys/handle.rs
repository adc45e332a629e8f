//! One untyped owner for each kind of verbs object: `Drop` lives here and nowhere else.
//!
//! The typed shells (`QueuePair<T, S, P>` and the rest) move between types freely because they own
//! one of these and have no `Drop` of their own.

#![allow(unsafe_code)] // calls the control path

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use super::control::Control;
use super::types::*;

/// A C object that a control verb destroys.
pub(crate) trait Object: Sized {
    /// What must outlive the object (rules R11.8 and R12.1).
    type Parents;
    /// # Safety
    /// `this` is a live object of the provider that `control` belongs to, and is not used again if
    /// 0 is returned.
    unsafe fn destroy(control: &Control, this: *mut Self) -> c_int;
}

/// The owner of one C object.
///
/// # Invariants
/// - `ptr` is live until `destroyed` is set, and belongs to the provider of `control`; unless it is `taken`: then it
///   belongs to another, and so do the `parents`.
/// - `parents` is dropped only after the object was destroyed: an object whose destruction the
///   provider refuses leaks together with all that it needs.
pub(crate) struct Handle<O: Object> {
    ptr: NonNull<O>,
    control: &'static Control,
    parents: ManuallyDrop<O::Parents>,
    destroyed: bool,
    /// Object and parents have another owner.
    taken: bool,
}

// SAFETY: verbs are thread-safe on any object (R17.1); what is not (posting and polling from two
// threads with one set of books) is held by `&mut` on the typed shells.
unsafe impl<O: Object<Parents: Send>> Send for Handle<O> {}
// SAFETY: as for Send.
unsafe impl<O: Object<Parents: Sync>> Sync for Handle<O> {}

impl<O: Object> Handle<O> {
    /// # Safety
    /// `ptr` is a live object of `control`'s provider that nobody else destroys.
    pub(crate) unsafe fn new(
        ptr: NonNull<O>,
        control: &'static Control,
        parents: O::Parents,
    ) -> Self {
        // INVARIANT: the caller gives a live object.
        Handle { ptr, control, parents: ManuallyDrop::new(parents), destroyed: false, taken: false }
    }

    pub(crate) fn as_ptr(&self) -> *mut O {
        self.ptr.as_ptr()
    }

    pub(crate) fn control(&self) -> &'static Control {
        self.control
    }

    /// For tests: another provider's answers.
    #[cfg(test)]
    pub(crate) fn set_control(&mut self, control: &'static Control) {
        self.control = control;
    }

    pub(crate) fn parents(&self) -> &O::Parents {
        debug_assert!(!self.taken);
        &self.parents
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.destroyed || self.taken
    }

    /// Its object, for another owner. Nothing may be done with this one any more.
    pub(crate) fn take(&mut self) -> Self {
        debug_assert!(!self.destroyed && !self.taken);
        self.taken = true;
        // SAFETY: read once, since from now on this value neither uses nor drops them.
        let parents = ManuallyDrop::new(unsafe { ManuallyDrop::take(&mut self.parents) });
        Handle { ptr: self.ptr, control: self.control, parents, destroyed: false, taken: false }
    }

    /// Destroys the object now; the errno if the provider refuses, and then the object lives on.
    pub(crate) fn close(&mut self) -> Result<(), c_int> {
        if self.is_closed() {
            return Ok(());
        }
        // SAFETY: by the type's invariant the object is live; it is marked at once.
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
                // SAFETY: the caller's contract is that of the verb.
                unsafe { (control.$verb)(this) }
            }
        }
    };
}

pub(crate) type Context = Handle<ibv_context>;
pub(crate) type Pd = Handle<ibv_pd>;
pub(crate) type Mr = Handle<ibv_mr>;
pub(crate) type Ah = Handle<ibv_ah>;
pub(crate) type Channel = Handle<ibv_comp_channel>;
pub(crate) type Cq = Handle<ibv_cq>;
pub(crate) type Srq = Handle<ibv_srq>;
pub(crate) type Qp = Handle<ibv_qp>;

/// What a queue pair needs alive.
#[allow(dead_code)] // held, not read
pub(crate) struct QpParents {
    pub pd: Arc<Pd>,
    pub send_cq: Arc<Cq>,
    pub recv_cq: Arc<Cq>,
}

/// What a completion queue needs alive.
#[allow(dead_code)] // held, not read
pub(crate) struct CqParents {
    pub context: Arc<Context>,
    pub channel: Option<Arc<Channel>>,
}

object!(ibv_context, close_device, ());
object!(ibv_pd, dealloc_pd, Arc<Context>);
object!(ibv_mr, dereg_mr, Arc<Pd>);
object!(ibv_ah, destroy_ah, Arc<Pd>);
object!(ibv_comp_channel, destroy_comp_channel, Arc<Context>);
object!(ibv_cq, destroy_cq, CqParents);
object!(ibv_srq, destroy_srq, Arc<Pd>);
object!(ibv_qp, destroy_qp, QpParents);
