//! Memory windows. Those of type 2 are created by a queue pair, and end before it. Those of type 1
//! belong to its protection domain, and the queue pair binds them.

#![allow(unsafe_code)] // posts a bind

use std::sync::Arc;

use super::{BindMw, MemoryWindow, MwBind, WindowEntry};
use crate::allows::{Allows, call};
use crate::memory::window::{Of, Owner, Window};
use crate::post::chain::SendPost;
use crate::post::refusal::PostError;
use crate::profile::{Profile, Signals};
use crate::qp::QueuePair;
use crate::rules::SendOn;
use crate::sys::window::{bind_mw, kind};
use crate::terms::error::Error;
use crate::terms::state::State;
use crate::terms::transport::{Rc, Transport};
use crate::work::address::Connected;
use crate::work::flags::{AlwaysSignaled, Unfenced};
use crate::work::request::WorkRequest;

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

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Binds a memory window of type 1 (`ibv_bind_mw`):
    /// [`Type1Window`](crate::ext::windows::Type1Window) has an example.
    ///
    /// It takes a place in the send queue until its completion, which returns the window. Earlier
    /// sends may still use the key that it invalidates. Later work requests start when the window
    /// is bound.
    ///
    /// # Errors
    /// [`PostError`] with the window: [`QueueFull`](crate::post::PostErrorKind::QueueFull)
    /// ([R9.6](crate::guide::rules#r9-6)), or
    /// [`PdMismatch`](crate::post::PostErrorKind::PdMismatch) if the window belongs to another
    /// domain ([R6.8](crate::guide::rules#r6-8)). If Soft-RoCE fails, C does not report whether the
    /// bind was posted. The queue then accepts no more work
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
