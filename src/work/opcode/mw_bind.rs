//! What `ibv_bind_mw` posts: BIND_MW of a window of type 1.

use std::marker::PhantomData;
use std::ops::Range;

use super::bind_mw::{Bind, bind, range_of};
use crate::allows::{Allows, call};
use crate::memory::region::MemoryRegion;
use crate::memory::rights::Access;
use crate::memory::window::{BoundType1Window, IsType1, Owner, Type1, Window};
use crate::sync::Arc;
use crate::sys::types::raw::ibv_mw_bind_info;
use crate::terms::error::Refused;
use crate::work::flags::SendFlags;

/// A bind of a window of type 1 (`struct ibv_mw_bind`), for
/// [`bind_mw`](crate::QueuePair::bind_mw), which alone posts it: to a range of a region, with the
/// rights `A`, or to nothing.
///
/// The window comes back with the completion, as [`AnyBuf::Window`](crate::memory::AnyBuf): so the
/// profile's entry is [`AnyBuf`](crate::memory::AnyBuf), and every send is signaled
/// ([`SignalAll`](crate::qp::SignalAll)). [`Type1Window`](crate::memory::Type1Window) has an
/// example.
///
/// The device chooses the key, which is therefore known when the bind has completed, and not before
/// ([R1.8](crate::guide::rules#r1-8)).
#[must_use = "a bind does nothing until it is posted"]
pub struct MwBind<A = ()> {
    bind: Bind<()>,
    _rights: PhantomData<fn() -> A>,
}

impl<A: Access> MwBind<A> {
    /// Binds `window` to the bytes `range` of `region`, and to no others
    /// ([R6.11](crate::guide::rules#r6-11)), as [`BindMw::new`](crate::wr::BindMw::new) does with
    /// one of type 2. One that is bound already is bound to them instead, and its key ends
    /// ([R19.8](crate::guide::rules#r19-8)).
    ///
    /// # Errors
    /// As for [`BindMw::new`](crate::wr::BindMw::new): the window is given back as it is.
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
        let (opened, registered) = match range_of::<A, R, M>(window.window(), region, range) {
            Ok(range) => range,
            Err(error) => return Err(Refused::new(window, error)),
        };
        let mut window = window.into_window();
        window.rebind(Some((opened, registered)));
        Ok(MwBind::of(window, opened.info()))
    }
}

impl MwBind {
    /// Ends the key of `window`, and its hold on the region: a bind of no bytes.
    pub fn unbind<A: Access>(window: BoundType1Window<A>) -> Self {
        let mut window = window.into_window();
        let (mr, addr) = (window.core().at, window.core().range.addr);
        window.rebind(None);
        // The region is that which it is bound to: librxe reads the key of one in any case.
        MwBind::of(window, ibv_mw_bind_info { mr, addr, length: 0, mw_access_flags: 0 })
    }
}

impl<A> MwBind<A> {
    fn of(window: Window, bind_info: ibv_mw_bind_info) -> Self {
        // The key is the provider's to choose.
        MwBind { bind: bind(window, 0, bind_info), _rights: PhantomData }
    }

    /// Waits for earlier RDMA READs and atomics of the queue pair (`IBV_SEND_FENCE`;
    /// [R2.1](crate::guide::rules#r2-1)).
    pub fn fence(mut self) -> Self {
        self.bind = self.bind.flagged(SendFlags::FENCE.bits());
        self
    }

    /// The work request, the owner of the window's object, and whether the device is software of
    /// the kernel.
    pub(crate) fn into_parts(self) -> (Bind<()>, Arc<Owner>, bool) {
        let core = self.bind.data.0.core();
        let (owner, is_soft_roce) = (core.owner.clone(), core.is_soft_roce);
        (self.bind, owner, is_soft_roce)
    }
}
