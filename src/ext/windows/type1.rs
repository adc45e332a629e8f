//! Memory windows of type 1, which belong to a protection domain, and the work request that binds
//! them.

#![allow(unsafe_code)] // posts a bind

use std::marker::PhantomData;
use std::sync::Arc;

use self::sealed::Sealed as _;
use super::bind_mw::{Bind, bind, range_of};
use super::{BindMw, RIGHTS, WindowEntry, slice};
use crate::allows::{Allows, call};
use crate::device::ProtectionDomain;
use crate::memory::region::MemoryRegion;
use crate::memory::window::{Of, Owner, Window};
use crate::memory::{Access, RemoteSlice};
use crate::post::chain::SendPost;
use crate::post::refusal::PostError;
use crate::profile::{Profile, Signals};
use crate::qp::QueuePair;
use crate::rules::SendOn;
use crate::sys::types::raw::ibv_mw_bind_info;
use crate::sys::window::{bind_mw, kind};
use crate::terms::error::{Error, Refused};
use crate::terms::state::State;
use crate::terms::threads::Threads;
use crate::terms::transport::Transport;
use crate::work::address::Connected;
use crate::work::flags::{AlwaysSignaled, SendFlags, Unfenced};
use crate::work::request::WorkRequest;

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
/// the key and assigns the window a new key, or no key
/// ([`MwBind::unbind`](crate::ext::windows::MwBind::unbind)). Dropping or destroying the window
/// invalidates the key too. [`Type1Window`] has an example.
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
            return Err(entry.refuse("the window is not bound: use `into_type1`"));
        }
        if range.rights != A::FLAGS & RIGHTS {
            return Err(entry.refuse("the window was bound with other rights: use those rights"));
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
            _ => Err(entry.refuse("the window is bound: use `into_bound_type1`")),
        }
    }

    /// Returns the window if it has type 1 and its binding is known.
    fn settled(mut self) -> Result<Self, Refused<Self>> {
        match self.0.learn_range() {
            true => Ok(self),
            false => Err(self.refuse("the window has type 2: use `into_bound` or `into_unbound`")),
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
    message = "`ibv_bind_mw` binds memory windows of type 1, not a `{Self}`",
    label = "not a window of type 1",
    note = "`pd.alloc_mw()` makes one; `ext::windows::BindMw` binds those of type 2, which `qp.alloc_mw()` makes"
)]
pub trait Type1: sealed::Sealed {}

impl Type1 for Type1Window {}
impl<A: Access> Type1 for BoundType1Window<A> {}

mod sealed {
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

/// A bind of a type 1 window (`struct ibv_mw_bind`), to a range of a region with the rights `A`, or
/// to nothing. Only [`bind_mw`](crate::QueuePair::bind_mw) posts it.
///
/// The completion returns the window as [`AnyBuf::Window`](crate::memory::AnyBuf). So the entry of
/// the profile must be [`AnyBuf`](crate::memory::AnyBuf), and its signaling
/// [`SignalAll`](crate::qp::SignalAll). [`Type1Window`] has an
/// example.
///
/// The device chooses the key, so it is not known before the bind has completed
/// ([R1.8](crate::guide::rules#r1-8)).
#[must_use = "a bind does nothing until it is posted"]
pub struct MwBind<A = ()> {
    bind: Bind<()>,
    _rights: PhantomData<fn() -> A>,
}

impl<A: Access> MwBind<A> {
    /// Binds `window` to the bytes `range` of `region` only ([R6.11](crate::guide::rules#r6-11)),
    /// like [`BindMw::new`](crate::ext::windows::BindMw::new) for type 2 windows. A window that is
    /// bound already is rebound, which invalidates its old key
    /// ([R19.8](crate::guide::rules#r19-8)).
    ///
    /// # Errors
    /// As for [`BindMw::new`](crate::ext::windows::BindMw::new). The error contains the window,
    /// unchanged.
    pub fn new<W, R, M>(
        window: W,
        region: &MemoryRegion<R, M>,
        range: std::ops::Range<usize>,
    ) -> Result<Self, Refused<W>>
    where
        W: Type1,
        R: Access,
        MemoryRegion<R, M>: Allows<call::BindWindow<A>>,
    {
        let (opened, registered) =
            or_refused!(window, range_of::<A, R, M>(window.window(), region, range));
        let mut window = window.into_window();
        window.rebind(Some((opened, registered)));
        Ok(MwBind::of(window, opened.info()))
    }
}

impl MwBind {
    /// Invalidates the key of `window` and releases its region, with a bind of 0 bytes.
    pub fn unbind<A: Access>(window: BoundType1Window<A>) -> Self {
        let mut window = window.into_window();
        let (mr, addr) = (window.core().at, window.core().range.addr);
        window.rebind(None);
        // The region is the one that it is bound to, because librxe always reads the key of a
        // region.
        MwBind::of(window, ibv_mw_bind_info { mr, addr, length: 0, mw_access_flags: 0 })
    }
}

impl<A> MwBind<A> {
    fn of(window: Window, bind_info: ibv_mw_bind_info) -> Self {
        // The provider chooses the key.
        MwBind { bind: bind(window, 0, bind_info), _rights: PhantomData }
    }

    /// Starts the bind only after earlier RDMA READs and atomics of the queue pair have completed
    /// (`IBV_SEND_FENCE`; [R2.1](crate::guide::rules#r2-1)).
    pub fn fence(mut self) -> Self {
        self.bind = self.bind.flagged(SendFlags::FENCE.bits());
        self
    }

    /// The work request, the owner of the window's object, and whether the device is a software
    /// device of the kernel.
    pub(super) fn into_parts(self) -> (Bind<()>, Arc<Owner>, bool) {
        let core = self.bind.data.0.core();
        let (owner, is_soft_roce) = (core.owner.clone(), core.is_soft_roce);
        (self.bind, owner, is_soft_roce)
    }
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Binds a memory window of type 1 (`ibv_bind_mw`):
    /// [`Type1Window`] has an example.
    ///
    /// The bind occupies a place in the send queue until its completion, which returns the window.
    /// Earlier sends may still use the key that the bind invalidates. Later work requests start
    /// when the window is bound.
    ///
    /// # Errors
    /// [`PostError`] with the window: [`QueueFull`](crate::post::PostErrorKind::QueueFull)
    /// ([R9.6](crate::guide::rules#r9-6)), or
    /// [`PdMismatch`](crate::post::PostErrorKind::PdMismatch) if the window belongs to another
    /// domain ([R6.8](crate::guide::rules#r6-8)). If the call fails on Soft-RoCE, libibverbs does
    /// not report whether the bind was posted. The queue then accepts no more work
    /// ([`OutcomeUnknown`](crate::post::PostErrorKind::OutcomeUnknown)).
    #[doc(alias("ibv_bind_mw", "ibv_mw_bind", "wr_id", "send_flags", "bind_info"))]
    pub fn bind_mw<A>(&mut self, bind: MwBind<A>) -> Result<(), PostError<P::Entry>>
    where
        Self: Allows<call::PostSend>,
        WorkRequest<BindMw, WindowEntry, Connected, Unfenced, AlwaysSignaled>: SendOn<T, P>,
    {
        let (bind, owner, is_soft_roce) = bind.into_parts();
        let bind = bind.flagged(Signals::<T, P>::EACH);
        let post = SendPost::<T, P>::new(&mut self.core.send);
        // SAFETY: the bounds are the rules. The window lives as long as its owner holds it, which
        // it does until the verb has returned. The window holds the region until then.
        unsafe {
            post.post_with_verb(bind, "ibv_bind_mw", |qp, wr, bad| {
                owner.while_bound(|| bind_mw(qp, wr, is_soft_roce, bad))
            })
        }
    }
}
