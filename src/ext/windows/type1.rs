//! Memory windows of type 1, which belong to a protection domain.

use std::marker::PhantomData;

use super::{RIGHTS, WindowEntry, slice};
use crate::device::ProtectionDomain;
use crate::memory::window::{Of, Owner, Window};
use crate::memory::{Access, RemoteSlice};
use crate::sys::window::kind;
use crate::terms::error::{Error, Refused};
use crate::terms::threads::Threads;

/// An unbound memory window of type 1 (`ibv_alloc_mw`).
///
/// It belongs to a protection domain. Each RC queue pair of that domain can bind it
/// ([`bind_mw`](crate::QueuePair::bind_mw)), and peers can use its key through all of them. A bind
/// changes the key, even if the window is already bound. Only a bind or the end of the window
/// invalidates a key of type 1; LOCAL_INV and SEND_WITH_INV do not
/// ([R19.8](crate::guide::rules#r19-8)). The window outlives queue pairs.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::{BoundType1Window, Type1Window, WindowEntry, Windowed};
/// profile! { Windows { entry: AnyBuf } } // completions return buffers and windows
///
/// # fn next(cq: &mut CompletionQueue<AnyBuf>) -> Result<WindowEntry, Box<dyn std::error::Error>> {
/// #     match proverbs::loopback::poll(cq, 1)?.remove(0) {
/// #         Some(AnyBuf::Window(window)) => Ok(window),
/// #         _ => Err("the completion of a bind has its window".into()),
/// #     }
/// # }
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Windows>()?;
/// let region = pd.register::<Windowed<LocalWrite>>(4096)?; // it does not have its own key
/// let window: Type1Window = pd.alloc_mw()?;
/// a.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(window, &region, 0..64)?)?;
/// let window: WindowEntry = next(&mut cq)?; // from the completion
/// let bound: BoundType1Window<RemoteWrite> = window.into_bound_type1()?;
///
/// // The peer, which received `bound.remote()`, writes:
/// b.post_send(wr::RdmaWrite::inline(b"windowed", bound.remote().write()))?;
/// # proverbs::loopback::poll(&mut cq, 1)?;
///
/// // Other bytes and rights, with another key. The first key is no longer valid.
/// a.bind_mw(ext::windows::MwBind::<RemoteRead>::new(bound, &region, 64..128)?)?;
/// # let window = next(&mut cq)?;
/// let bound: BoundType1Window<RemoteRead> = window.into_bound_type1()?;
///
/// a.bind_mw(ext::windows::MwBind::unbind(bound))?; // the window has no key now
/// # let window = next(&mut cq)?;
/// let window: Type1Window = window.into_type1()?;
/// # let _ = window;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "IBV_MW_TYPE_1")]
pub struct Type1Window(pub(crate) Window);

/// A bound memory window of type 1: a key for a range of a region, with the rights `A`.
///
/// It keeps the region registered ([R6.11](crate::guide::rules#r6-11)). Another bind invalidates
/// the key and assigns the window another one, or none
/// ([`MwBind::unbind`](crate::ext::windows::MwBind::unbind)). Dropping or destroying the window
/// invalidates it too. [`Type1Window`] has an example.
pub struct BoundType1Window<A: Access>(pub(crate) Window, PhantomData<fn() -> A>);

impl<L: Threads> ProtectionDomain<L> {
    /// Allocates a memory window of type 1 in this domain (`ibv_alloc_mw`). [`Type1Window`] has an
    /// example. For type 2, use [`QueuePair::alloc_mw`](crate::QueuePair::alloc_mw).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EOPNOTSUPP or ENOSYS if the device
    /// does not support windows, EINVAL if it does not support type 1, ENOMEM if too many exist.
    #[doc(alias = "ibv_alloc_mw")]
    pub fn alloc_mw(&self) -> Result<Type1Window, Error> {
        let owner = Owner::alloc(self.handle(), kind::IBV_MW_TYPE_1, "type 1", None)?;
        let is_soft_roce = self.handle().parents().context.is_soft_roce();
        Ok(Type1Window(Window::new(owner, Of::Domain(self.id()), is_soft_roce)))
    }
}

impl Type1Window {
    /// Sets your own number, initially 0, which stays with the window: see [`WindowEntry::id`].
    pub fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }
}

impl<A: Access> BoundType1Window<A> {
    /// The slice that the window makes accessible to peers.
    pub fn remote(&self) -> RemoteSlice<A> {
        slice(&self.0)
    }
}

impl WindowEntry {
    /// Returns the bound window of type 1, if `ibv_bind_mw` with the rights `A` has succeeded, or
    /// if the next bind of a bound window was not posted.
    ///
    /// # Errors
    /// As for [`into_bound`](Self::into_bound).
    pub fn into_bound_type1<A: Access>(self) -> Result<BoundType1Window<A>, Refused<Self>> {
        let entry = self.settled()?;
        let range = entry.0.core().range;
        if range.len == 0 {
            return Err(entry.refuse("it is not bound"));
        }
        if range.rights != A::FLAGS & RIGHTS {
            return Err(entry.refuse("it is bound with other rights"));
        }
        Ok(BoundType1Window(entry.0, PhantomData))
    }

    /// Returns the unbound window of type 1, if
    /// [`MwBind::unbind`](crate::ext::windows::MwBind::unbind) has succeeded, or if the first bind
    /// was not posted.
    ///
    /// # Errors
    /// As for [`into_bound`](Self::into_bound).
    pub fn into_type1(self) -> Result<Type1Window, Refused<Self>> {
        let entry = self.settled()?;
        match entry.0.core().range.len {
            0 => Ok(Type1Window(entry.0)),
            _ => Err(entry.refuse("it is bound")),
        }
    }

    /// Returns the window if it has type 1 and its binding is known.
    fn settled(mut self) -> Result<Self, Refused<Self>> {
        match self.0.learn_range() {
            true => Ok(self),
            false => Err(self.refuse("it has type 2")),
        }
    }
}

/// A memory window of type 1, bound or not, for [`MwBind`](crate::ext::windows::MwBind)
/// ([R19.8](crate::guide::rules#r19-8)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::{BoundType1Window, Type1, Type1Window};
/// fn may_be_bound<W: Type1>() {}
/// may_be_bound::<Type1Window>();
/// may_be_bound::<BoundType1Window<RemoteRead>>(); // to something else
/// ```
#[diagnostic::on_unimplemented(
    message = "`ibv_bind_mw` binds memory windows of type 1, and no `{Self}`",
    label = "not a window of type 1",
    note = "`pd.alloc_mw()` makes one; `ext::windows::BindMw` binds those of type 2, which `qp.alloc_mw()` makes"
)]
pub trait Type1: sealed::Sealed {}

impl Type1 for Type1Window {}
impl<A: Access> Type1 for BoundType1Window<A> {}

pub(super) mod sealed {
    use super::*;

    pub trait Sealed {
        fn window(&self) -> &Window;
        fn into_window(self) -> Window;
    }

    impl Sealed for Type1Window {
        fn window(&self) -> &Window {
            &self.0
        }

        fn into_window(self) -> Window {
            self.0
        }
    }

    impl<A: Access> Sealed for BoundType1Window<A> {
        fn window(&self) -> &Window {
            &self.0
        }

        fn into_window(self) -> Window {
            self.0
        }
    }
}
