//! Memory windows: keys for ranges of a region, which end without the region.
//!
//! What a window is, is its type: unbound ([`MemoryWindow`]), bound with a key that this end ends
//! ([`BoundWindow`]), bound with a key that the peer gives back ([`LentWindow`]), or with a work
//! request and its completion ([`WindowEntry`]).

mod core;
mod revocable;
mod rights;
mod stale;
#[cfg(test)]
mod tests;
mod type1;

use std::marker::PhantomData;

pub(crate) use self::core::{Last, Of, Opened, Owner, Range, Window};
pub use revocable::Revocable;
pub use rights::{BindsTo, BindsWindows, Windowed};
pub(crate) use stale::StaleKeys;
pub(crate) use type1::sealed::Sealed as IsType1;
pub use type1::{BoundType1Window, Type1, Type1Window};

use self::core::Known;
use crate::counters::queue_counters::QueueCounters;
use crate::memory::registered::AccessFlags;
use crate::memory::{Access, RemoteSlice};
use crate::terms::error::{Error, Refused};

/// A memory window of type 2 (`ibv_alloc_mw`) without a key.
///
/// It is of one queue pair, through which alone it is bound, and its key used and ended (type 2B,
/// [R19.4](crate::guide::rules#r19-4)). [`BindMw`](crate::wr::BindMw) binds it. Dropping
/// deallocates it, and so does the end or the reset of the queue pair: no key of its windows is
/// valid after that.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{BoundWindow, MemoryWindow, Windowed};
/// profile! { Windows { entry: AnyBuf } } // a completion gives buffers and windows back
///
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Windows>()?;
/// let region = pd.register::<Windowed<LocalWrite>>(4096)?; // it has no key of its own
/// let window: MemoryWindow = a.alloc_mw()?;
/// a.post_send(wr::BindMw::<RemoteWrite>::new(window, &region, 0..64)?)?;
/// let Some(AnyBuf::Window(window)) = proverbs::loopback::poll(&mut cq, 1)?.remove(0) else {
///     unreachable!("the completion of a bind brings its window");
/// };
/// let bound: BoundWindow<RemoteWrite> = window.into_bound()?;
///
/// // The peer, that was told `bound.remote()`, writes:
/// b.post_send(wr::RdmaWrite::inline(b"windowed", bound.remote().write()))?;
/// # proverbs::loopback::poll(&mut cq, 1)?;
/// a.post_send(wr::LocalInv::new(bound))?; // and no longer
/// # let Some(AnyBuf::Window(window)) = proverbs::loopback::poll(&mut cq, 1)?.remove(0) else {
/// #     unreachable!("the completion of LOCAL_INV brings its window");
/// # };
/// let window: MemoryWindow = window.into_unbound()?; // to be bound again
/// # let _ = window;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("revoke", "IBV_MW_TYPE_2", "ibv_mw_type", "ibv_mw"))]
pub struct MemoryWindow(pub(crate) Window);

/// A memory window that is bound: a key for a range of a region, with the rights `A`
/// ([R1.8](crate::guide::rules#r1-8)).
///
/// It keeps the region registered ([R6.11](crate::guide::rules#r6-11)).
/// [`LocalInv`](crate::wr::LocalInv) ends the key and gives the window back; dropping or destroying
/// the window ends the key too (`ibv_dealloc_mw`). [`MemoryWindow`] has an example.
///
/// A peer that knows the key can also end it, by SEND_WITH_INV. LOCAL_INV then fails, and the queue
/// pair is in the error state. On Soft-RoCE it would crash the kernel (Linux 6.1 to 7.3), so
/// LOCAL_INV is refused there
/// ([`LocalInvOnSoftRoce`](crate::post::PostErrorKind::LocalInvOnSoftRoce)): destroy the window and
/// allocate another, or [lend](crate::wr::WorkRequest::lend) it.
#[doc(alias = "ibv_mw")]
pub struct BoundWindow<A: Access>(Window, PhantomData<fn() -> A>);

/// A memory window whose key was lent to a peer, who gives it back by
/// [`SendWithInv`](crate::wr::SendWithInv): see [`lend`](crate::wr::WorkRequest::lend).
///
/// [`revoked`](Self::revoked) makes it unbound, and consumes the completion that says so. The
/// region stays registered until the window's next bind has completed, or the window is
/// deallocated.
///
/// This end does not end the key by LOCAL_INV, which the peer's message could have done before: a
/// window that is not given back is dropped or destroyed.
#[doc(alias = "revoke")]
pub struct LentWindow(Window);

/// A memory window with a work request: what its completion gives back, as
/// [`AnyBuf::Window`](crate::memory::AnyBuf), or its refusal.
///
/// It knows what the work request was and whether it succeeded. If BIND_MW or LOCAL_INV failed or
/// was flushed, or was released without a completion of its own, there may be a key or none: the
/// window can only be dropped or destroyed, which ends it ([R19.5](crate::guide::rules#r19-5)). If
/// the post was refused, the window is as it was.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Windowed;
/// # profile! { Windows { entry: AnyBuf } }
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Windows>()?;
/// let region = pd.register::<Windowed<LocalWrite>>(4096)?;
/// let mut window = a.alloc_mw()?;
/// window.set_id(7);
/// let mut a = a.to_error()?;
/// a.post_send(wr::BindMw::<RemoteRead>::new(window, &region, 0..64)?)?;
/// let completion = cq.poll_one()?.ok_or("nothing was flushed")?;
/// assert!(completion.status().is_err());
/// let Some(AnyBuf::Window(flushed)) = completion.into_entry() else {
///     unreachable!("the completion of a bind brings its window");
/// };
/// assert_eq!(flushed.id(), 7);
/// let flushed = flushed.into_bound::<RemoteRead>().unwrap_err().into_object();
/// let flushed = flushed.into_unbound().unwrap_err().into_object();
/// flushed.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[repr(transparent)]
pub struct WindowEntry(pub(crate) Window);

impl MemoryWindow {
    /// Sets the program's own word, 0 at first, which stays with the window: see
    /// [`WindowEntry::id`].
    pub fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }
}

impl<A: Access> BoundWindow<A> {
    /// What the window opens to peers.
    pub fn remote(&self) -> RemoteSlice<A> {
        slice(&self.0)
    }

    pub(crate) fn into_entry(mut self) -> (WindowEntry, u32) {
        let core = self.0.core_mut();
        (core.last, core.known) = (Last::Invalidate, Known::Nothing);
        let rkey = core.rkey;
        (WindowEntry(self.0), rkey)
    }
}

impl LentWindow {
    /// The key that was lent.
    pub fn rkey(&self) -> u32 {
        self.0.core().rkey
    }

    /// Whether a message ended this key, and not one of before with the same number: it was on the
    /// queue pair with this number, and its receive `is_of` the queue with these names. (Other
    /// devices have the same numbers.)
    pub(crate) fn is_ended_by(
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

    /// The window without a key. The completion that names it is given up.
    pub(crate) fn into_revoked(mut self) -> MemoryWindow {
        self.0.revoked();
        MemoryWindow(self.0)
    }
}

impl WindowEntry {
    /// The window as a bound one, if [`BindMw`](crate::wr::BindMw) with the rights `A` has
    /// succeeded, or LOCAL_INV was refused.
    ///
    /// # Errors
    /// It is given back: [`ErrorKind::Protocol`](crate::ErrorKind::Protocol) with the reason.
    pub fn into_bound<A: Access>(mut self) -> Result<BoundWindow<A>, Refused<Self>> {
        let core = self.0.core();
        match (core.last, core.known) {
            (Last::Bind, Known::Done) | (Last::Invalidate, Known::Refused) => {}
            _ => return Err(self.refuse("it is not bound")),
        }
        if core.range.rights != A::FLAGS & RIGHTS {
            return Err(self.refuse("it is bound with other rights"));
        }
        self.0.bound();
        Ok(BoundWindow(self.0, PhantomData))
    }

    /// The window as a lent one, if [`BindMw`](crate::wr::BindMw) with
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
            _ => Err(self.refuse("it is not lent")),
        }
    }

    /// The window without a key, if [`LocalInv`](crate::wr::LocalInv) has succeeded, or a bind was
    /// refused.
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
            _ => Err(self.refuse("it may have a key")),
        }
    }

    /// The program's own word: see [`MemoryWindow::set_id`].
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    pub(crate) fn completed(&mut self, is_success: bool) {
        self.0.completed(is_success);
    }

    pub(crate) fn refused(&mut self) {
        self.0.refused();
    }

    #[cold]
    fn refuse(self, why: &'static str) -> Refused<Self> {
        let why = match self.0.core().known {
            Known::Failed => "its work request failed, so that nobody knows: drop or destroy it",
            Known::Nothing => {
                "its work request was released without a completion of its own, so that it may \
                 have a key or none: drop or destroy it"
            }
            _ => why,
        };
        let error = Error::new("ibv_bind_mw", crate::ErrorKind::Protocol(why));
        Refused::new(self, error)
    }
}

/// The rights that a peer's device is asked for.
pub(crate) const REMOTE: u32 = {
    use crate::sys::types::ibv_access_flags as right;
    right::IBV_ACCESS_REMOTE_READ.0
        | right::IBV_ACCESS_REMOTE_WRITE.0
        | right::IBV_ACCESS_REMOTE_ATOMIC.0
};

/// The rights that the type of a window says.
pub(crate) const RIGHTS: u32 = REMOTE | AccessFlags::RELAXED_ORDERING.bits();

fn slice<A: Access>(window: &Window) -> RemoteSlice<A> {
    let core = window.core();
    RemoteSlice::from_parts(core.range.addr, core.range.len, core.rkey)
}

macro_rules! windows {
    ($($window:ident [$($rights:ident)?] $name:literal;)*) => {$(
        impl$(<$rights: Access>)? $window$(<$rights>)? {
            /// Deallocates the window (`ibv_dealloc_mw`): its key, if it has one, is no longer
            /// valid, and its region no longer held.
            ///
            /// [Blocks](crate::guide::shutdown) while the device does not answer.
            ///
            /// # Errors
            /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: the device refused, and the
            /// window is given back.
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
