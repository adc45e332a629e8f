//! Memory windows: keys for ranges of a region, which can be invalidated without deregistering it.
//!
//! The type contains the state of a window: unbound ([`MemoryWindow`]), bound with a key that this
//! end invalidates ([`BoundWindow`]), bound with a key that the peer invalidates ([`LentWindow`]),
//! or owned by a work request and its completion ([`WindowEntry`]).
//!
//! The design is in
//! [docs/windows.md](https://docs.rs/crate/proverbs/latest/source/docs/windows.md).

#![allow(unsafe_code)] // declares an unsafe method

mod bind_mw;
mod invalidate;
mod rights;
mod type1;

pub use crate::memory::window::WindowEntry;
pub use bind_mw::BindMw;
pub use invalidate::{LocalInv, SendWithInv};
pub use rights::{BindsTo, BindsWindows, Revocable, Windowed};
pub use type1::{BoundType1Window, MwBind, Type1, Type1Window};

use std::marker::PhantomData;
use std::sync::Arc;

use crate::counters::queue_counters::QueueCounters;
use crate::memory::entry::AnyBuf;
use crate::memory::header::Handle;
use crate::memory::registered::AccessFlags;
use crate::memory::window::{Known, Last, Of, Owner, Window};
use crate::memory::{Access, RemoteSlice};
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::sys::types::ibv_sge;
use crate::sys::window::kind;
use crate::terms::error::{Error, Refused};
use crate::terms::state::State;
use crate::terms::transport::Rc;
use crate::work::data::{Data, Fits};
use crate::work::limits::Limit;
use crate::work::request::{Check, Emitted, How};
use crate::work::{data, fault};

/// An unbound memory window of type 2 (`ibv_alloc_mw`).
///
/// It belongs to one queue pair. Only that queue pair can bind it, and use and invalidate its key
/// (type 2B, [R19.4](crate::guide::rules#r19-4)). [`BindMw`] binds it.
/// Dropping it deallocates it. Destroying or resetting the queue pair also deallocates its windows,
/// so none of their keys is valid afterwards.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::{BoundWindow, MemoryWindow, Windowed};
/// profile! { Windows { entry: AnyBuf } } // completions return buffers and windows
///
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Windows>()?;
/// let region = pd.register::<Windowed<LocalWrite>>(4096)?; // it does not have its own key
/// let window: MemoryWindow = a.alloc_mw()?;
/// a.post_send(ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64)?)?;
/// let Some(AnyBuf::Window(window)) = proverbs::loopback::poll(&mut cq, 1)?.remove(0) else {
///     unreachable!("the completion of a bind has its window");
/// };
/// let bound: BoundWindow<RemoteWrite> = window.into_bound()?;
///
/// // The peer, which received `bound.remote()`, writes:
/// b.post_send(wr::RdmaWrite::inline(b"windowed", bound.remote().write()))?;
/// # proverbs::loopback::poll(&mut cq, 1)?;
/// a.post_send(ext::windows::LocalInv::new(bound))?; // the key is no longer valid
/// # let Some(AnyBuf::Window(window)) = proverbs::loopback::poll(&mut cq, 1)?.remove(0) else {
/// #     unreachable!("the completion of LOCAL_INV has its window");
/// # };
/// let window: MemoryWindow = window.into_unbound()?; // can be bound again
/// # let _ = window;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("revoke", "IBV_MW_TYPE_2", "ibv_mw_type", "ibv_mw"))]
pub struct MemoryWindow(pub(crate) Window);

/// A bound memory window: a key for a range of a region, with the rights `A`
/// ([R1.8](crate::guide::rules#r1-8)).
///
/// It keeps the region registered ([R6.11](crate::guide::rules#r6-11)).
/// [`LocalInv`] invalidates the key and returns the window. Dropping
/// or destroying the window invalidates the key too (`ibv_dealloc_mw`). [`MemoryWindow`] has an
/// example.
///
/// A peer with the key can also invalidate it, with SEND_WITH_INV. LOCAL_INV then fails, and the
/// queue pair enters the error state. On Soft-RoCE it would crash the kernel (Linux 6.1 to 7.3), so
/// LOCAL_INV is rejected there
/// ([`LocalInvOnSoftRoce`](crate::post::PostErrorKind::LocalInvOnSoftRoce)): destroy the window and
/// allocate another, or [lend](crate::wr::WorkRequest::lend) it.
#[doc(alias = "ibv_mw")]
pub struct BoundWindow<A: Access>(Window, PhantomData<fn() -> A>);

/// A memory window whose key was lent to a peer, which returns it with
/// [`SendWithInv`]: see [`lend`](crate::wr::WorkRequest::lend).
///
/// [`revoked`](Self::revoked) consumes the completion that reports this, and returns the unbound
/// window. The region stays registered until the window's next bind has completed, or the window is
/// deallocated.
///
/// This end cannot invalidate the key with LOCAL_INV, because the peer's message may have done so
/// already. If the peer does not invalidate the key, drop or destroy the window.
#[doc(alias = "revoke")]
pub struct LentWindow(Window);

impl MemoryWindow {
    /// Sets your own number, initially 0, which stays with the window: see [`WindowEntry::id`].
    pub fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }
}

impl<A: Access> BoundWindow<A> {
    /// The slice that the window makes accessible to peers.
    pub fn remote(&self) -> RemoteSlice<A> {
        slice(&self.0)
    }

    fn into_entry(mut self) -> (WindowEntry, u32) {
        let core = self.0.core_mut();
        (core.last, core.known) = (Last::Invalidate, Known::Nothing);
        let rkey = core.rkey;
        (WindowEntry(self.0), rkey)
    }
}

impl LentWindow {
    /// The number that [`MemoryWindow::set_id`] set.
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// The key that was lent.
    pub fn rkey(&self) -> u32 {
        self.0.core().rkey
    }

    /// Whether a message invalidated this key, and not an earlier key with the same number: the
    /// message arrived on the queue pair with this number, and its receive `is_of` the queue with
    /// these names. (Other devices have the same numbers.)
    fn is_ended_by(
        &self,
        qp_num: u32,
        rkey: Option<u32>,
        is_of: impl FnOnce(&QueueCounters) -> bool,
    ) -> bool {
        let core = self.0.core();
        let is_its = match &core.of {
            Of::Pair(_, receives, number) => *number == qp_num && is_of(receives),
            Of::Domain(_) => false,
        };
        is_its && core.is_fresh && rkey == Some(core.rkey)
    }

    /// Returns the unbound window. The completion that names its key has been consumed.
    fn into_revoked(mut self) -> MemoryWindow {
        self.0.revoked();
        MemoryWindow(self.0)
    }
}

impl WindowEntry {
    /// Returns the bound window, if [`BindMw`] with the rights `A` has
    /// succeeded, or LOCAL_INV was rejected.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`](crate::ErrorKind::Protocol) with the reason, and the unchanged
    /// window.
    pub fn into_bound<A: Access>(mut self) -> Result<BoundWindow<A>, Refused<Self>> {
        let core = self.0.core();
        match (core.last, core.known) {
            (Last::Bind, Known::Done) | (Last::Invalidate, Known::Refused) => {}
            _ => return Err(self.refuse("not a bound window: use `into_lent` or `into_unbound`")),
        }
        if core.range.rights != A::FLAGS & RIGHTS {
            return Err(self.refuse("the window was bound with other rights: use those rights"));
        }
        self.0.bound();
        Ok(BoundWindow(self.0, PhantomData))
    }

    /// Returns the lent window, if [`BindMw`] with
    /// [`lend`](crate::wr::WorkRequest::lend) has succeeded.
    ///
    /// # Errors
    /// As for [`into_bound`](Self::into_bound).
    pub fn into_lent(mut self) -> Result<LentWindow, Refused<Self>> {
        match (self.0.core().last, self.0.core().known) {
            (Last::Lend, Known::Done) => {
                self.0.bound();
                Ok(LentWindow(self.0))
            }
            _ => Err(self.refuse("the window is not lent: use `into_bound` or `into_unbound`")),
        }
    }

    /// Returns the unbound window, if [`LocalInv`] has succeeded, or
    /// a bind was rejected.
    ///
    /// # Errors
    /// As for [`into_bound`](Self::into_bound).
    pub fn into_unbound(mut self) -> Result<MemoryWindow, Refused<Self>> {
        match (self.0.core().last, self.0.core().known) {
            (Last::Invalidate, Known::Done) => {
                self.0.let_go();
                Ok(MemoryWindow(self.0))
            }
            (Last::Bind | Last::Lend, Known::Refused) => {
                self.0.not_bound();
                Ok(MemoryWindow(self.0))
            }
            _ => Err(self.refuse("the window may have a key: use `into_bound` or `into_lent`")),
        }
    }

    /// Your own number: see [`MemoryWindow::set_id`].
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    #[cold]
    fn refuse(self, why: &'static str) -> Refused<Self> {
        let why = match self.0.core().known {
            Known::Failed => "the work request failed, so the state is unknown: destroy the window",
            Known::Nothing => {
                "the work request was released without a separate completion, so the window \
                 may or may not have a key: destroy it"
            }
            _ => why,
        };
        let error = Error::new("ibv_bind_mw", crate::ErrorKind::Protocol(why));
        Refused::new(self, error)
    }
}

/// The rights that apply at the peer's device.
pub(crate) const REMOTE: u32 = AccessFlags::EXPOSES.difference(AccessFlags::MW_BIND).bits();

/// The rights in the type of a window.
const RIGHTS: u32 = REMOTE | AccessFlags::RELAXED_ORDERING.bits();

fn slice<A: Access>(window: &Window) -> RemoteSlice<A> {
    let core = window.core();
    RemoteSlice::from_parts(core.range.addr, core.range.len, core.rkey)
}

macro_rules! windows {
    ($($window:ident [$($rights:ident)?] $name:literal;)*) => {$(
        impl$(<$rights: Access>)? $window$(<$rights>)? {
            /// Deallocates the window (`ibv_dealloc_mw`). Its key, if any, is no longer valid, and
            /// the window no longer keeps its region registered.
            ///
            /// [Blocks](crate::guide::shutdown) while the device does not answer.
            ///
            /// # Errors
            /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the window, if the
            /// device refuses.
            #[doc(alias = "ibv_dealloc_mw")]
            pub fn destroy(self) -> Result<(), Refused<Self>> {
                self.0.destroy().map_err(|error| Refused::new(self, error))
            }
        }

        impl_debug!([$($rights: Access)?] $window$(<$rights>)?, |it|
            concat!($name, "({} bytes, rkey {:#x})"), it.0.core().range.len, it.0.core().rkey);
    )*};
}

windows! {
    MemoryWindow [] "MemoryWindow";
    BoundWindow [A] "BoundWindow";
    LentWindow [] "LentWindow";
    Type1Window [] "Type1Window";
    BoundType1Window [A] "BoundType1Window";
    WindowEntry [] "WindowEntry";
}

impl<S: State, P: Profile> QueuePair<Rc, S, P> {
    /// Allocates a memory window of type 2 (`ibv_alloc_mw`) for this queue pair. [`MemoryWindow`]
    /// has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EOPNOTSUPP or ENOSYS if the device
    /// has no windows, EINVAL if it has no windows of type 2, ENOMEM if too many exist.
    #[doc(alias("ibv_alloc_mw", "ibv_mw"))]
    pub fn alloc_mw(&mut self) -> Result<MemoryWindow, Error> {
        let is_soft_roce = self.context().handle.is_soft_roce();
        let stale = match &self.core.srq {
            Some(srq) => srq.stale_keys.clone(),
            None => self.core.windows.stale_keys.get_or_insert_default().clone(),
        };
        let pd = &self.core.handle.parents().pd;
        let owner = Owner::alloc(pd, kind::IBV_MW_TYPE_2, "type 2", Some(stale))?;
        let windows = &mut self.core.windows.all;
        if windows.len() == windows.capacity() {
            windows.retain(|window| window.strong_count() != 0);
        }
        windows.push(Arc::downgrade(&owner));
        let counters = &self.core.counters;
        let receives = self.core.srq.as_ref().map_or(counters, |srq| &srq.counters);
        let of = Of::Pair(counters.clone(), receives.clone(), self.qp_num());
        Ok(MemoryWindow(Window::new(owner, of, is_soft_roce)))
    }
}

impl data::sealed::Sealed for WindowEntry {}

impl<M: Limit, I: Limit> Fits<M, I> for WindowEntry {}

impl<C: 'static> data::sealed::Of<AnyBuf<C>> for WindowEntry {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<C: 'static> Data<AnyBuf<C>> for WindowEntry {
    type Sges = [ibv_sge; 0];
    const IS_ONE: bool = true;

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, _: How, check: &mut Check) -> Emitted<AnyBuf<C>> {
        // The C object that BIND_MW names is alive as long as the queue pair has the counters that
        // the window refers to and has not ended it. A list that contains the window of another
        // queue pair is not posted.
        if !self.0.is_of(check.counter) {
            check.note(fault::WINDOW);
        } else if self.0.may_crash() {
            check.note(fault::LOCAL_INV);
        }
        check.see(self.header().type_tag());
        Emitted { sges, count: 0, entry: Some(AnyBuf::Window(self)), flags: 0, wr_id: 0 }
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
