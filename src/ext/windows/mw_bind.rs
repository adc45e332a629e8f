//! The work request of `ibv_bind_mw`: BIND_MW of a type 1 window.

use std::marker::PhantomData;
use std::ops::Range;

use super::bind_mw::{Bind, bind, range_of};
use super::type1::sealed::Sealed as IsType1;
use super::{BoundType1Window, Type1};
use crate::allows::{Allows, call};
use crate::memory::region::MemoryRegion;
use crate::memory::rights::Access;
use crate::memory::window::{Owner, Window};
use crate::sync::Arc;
use crate::sys::types::raw::ibv_mw_bind_info;
use crate::terms::error::Refused;
use crate::work::flags::SendFlags;

/// A bind of a type 1 window (`struct ibv_mw_bind`), to a range of a region with the rights `A`, or
/// to nothing. Only [`bind_mw`](crate::QueuePair::bind_mw) posts it.
///
/// The completion returns the window as [`AnyBuf::Window`](crate::memory::AnyBuf). So the entry of
/// the profile must be [`AnyBuf`](crate::memory::AnyBuf), and its signaling
/// [`SignalAll`](crate::qp::SignalAll). [`Type1Window`](crate::ext::windows::Type1Window) has an
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
        range: Range<usize>,
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
