//! What `ibv_bind_mw` posts: BIND_MW of a window of type 1.

#![allow(unsafe_code)] // writes C work requests

use std::marker::PhantomData;
use std::ops::Range;

use super::bind_mw::range_of;
use super::{Opcode, WcOpcode, sealed};
use crate::memory::own::{Allows, Memory};
use crate::memory::region::MemoryRegion;
use crate::memory::rights::Access;
use crate::memory::window::{
    BindsTo, BindsWindows, BoundType1Window, IsType1, Owner, REMOTE, Type1, Window, WindowEntry,
};
use crate::sync::Arc;
use crate::sys::types::raw::{bind_mw_t, ibv_mw_bind_info};
use crate::sys::types::{ibv_send_wr, ibv_wr_opcode};
use crate::sys::window::emit_bind;
use crate::terms::error::Refused;
use crate::work::address::Connected;
use crate::work::flags::{SendFlags, Told, Unfenced};
use crate::work::request::{Use, WorkRequest, request};

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
    /// Its opcode is C's own business: `ibv_bind_mw` has none.
    work: WorkRequest<Operands, WindowEntry, Connected, Unfenced, Told>,
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
        A: BindsTo<R>,
        R: BindsWindows,
        M: Memory<Protection: Allows<A>>,
    {
        let (opened, registered) = match range_of::<A, R, M>(window.window(), region, range) {
            Ok(range) => range,
            Err(error) => return Err(Refused::new(window, error)),
        };
        let mut window = window.into_window();
        window.rebind(Some((opened, registered)));
        let bind_info = ibv_mw_bind_info {
            mr: opened.mr,
            addr: opened.range.addr,
            length: opened.range.len,
            mw_access_flags: opened.range.rights & REMOTE,
        };
        Ok(MwBind::of(window, bind_info))
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
        let bind = bind_mw_t { mw: window.core().mw, rkey: 0, bind_info };
        let work = request(Operands(bind), WindowEntry(window), Use::Send)
            .with(|connected| connected, SendFlags::empty());
        MwBind { work, _rights: PhantomData }
    }

    /// Waits for earlier RDMA READs and atomics of the queue pair (`IBV_SEND_FENCE`;
    /// [R2.1](crate::guide::rules#r2-1)).
    pub fn fence(mut self) -> Self {
        self.work = self.work.flagged(SendFlags::FENCE.bits());
        self
    }

    /// The work request, the owner of the window's object, and whether the device is software of
    /// the kernel.
    #[allow(clippy::type_complexity)]
    pub(crate) fn into_parts(
        self,
    ) -> (WorkRequest<Operands, WindowEntry, Connected, Unfenced, Told>, Arc<Owner>, bool) {
        let core = self.work.data.0.core();
        let (owner, is_soft_roce) = (core.owner.clone(), core.is_soft_roce);
        (self.work, owner, is_soft_roce)
    }
}

/// BIND_MW with these operands.
pub(crate) struct Operands(bind_mw_t);

impl sealed::Sealed for Operands {}

impl Opcode for Operands {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_BIND_MW;
    const NAME: &'static str = "BIND_MW";
    const COMPLETES_AS: WcOpcode = WcOpcode::BindMw;

    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr) {
        // SAFETY: `wr` is writable by this function's contract.
        unsafe { emit_bind(wr, self.0) };
    }
}
