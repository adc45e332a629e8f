//! The memory windows of a queue pair: they are made by it, and end before it.

#![allow(unsafe_code)] // owns the C object

use std::sync::{Arc, Weak};

use super::{Core, QueuePair};
use crate::memory::window::{MemoryWindow, Owner, Window};
use crate::profile::Profile;
use crate::sys::handle;
use crate::sys::window::{MwParents, alloc_mw, kind};
use crate::terms::error::Error;
use crate::terms::state::State;
use crate::terms::transport::Rc;

/// The windows of a queue pair, those that are gone among them.
pub(crate) type Windows = Vec<Weak<Owner>>;

impl<S: State, P: Profile> QueuePair<Rc, S, P> {
    /// Allocates a memory window of type 2 (`ibv_alloc_mw`), of this queue pair:
    /// [`MemoryWindow`] has an example.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno: EOPNOTSUPP or ENOSYS if the device
    /// has no windows, EINVAL if none of type 2, ENOMEM if too many exist.
    pub fn alloc_mw(&mut self) -> Result<MemoryWindow, Error> {
        let pd = &self.core.handle.parents().pd;
        // On the domain below a lane: a window may end on any thread, and must not keep the lane.
        let pd = pd.parents().joins.as_ref().map_or(pd, |lane| &lane.pd);
        // SAFETY: the queue pair keeps its domain alive.
        let mw = unsafe { alloc_mw(pd.as_ptr(), kind::IBV_MW_TYPE_2) };
        let mw = mw.map_err(|errno| Error::os("ibv_alloc_mw", errno, "type 2"))?;
        let parents = MwParents { pd: pd.clone(), region: None };
        // SAFETY: the object was just created, and has no other owner.
        let mw = unsafe { handle::Mw::new(mw, pd.control(), parents) };
        let owner = Owner::new(mw);
        let windows = &mut self.core.windows;
        if windows.len() == windows.capacity() {
            windows.retain(|window| window.strong_count() != 0);
        }
        windows.push(Arc::downgrade(&owner));
        let (books, qp_num) = (self.core.books.clone(), self.qp_num());
        Ok(MemoryWindow(Window::new(owner, books, qp_num)))
    }
}

impl<P: Profile> Core<P> {
    /// Deallocates the windows: the queue pair is about to be destroyed, or was reset. What the
    /// device refuses to deallocate lives on, with its window. The others are given, to be dropped
    /// once the queue pair is whole again, or gone: with a region code of the program's may run.
    #[must_use = "dropped at once, it may panic"]
    pub(super) fn end_windows(&mut self) -> Vec<handle::Mw> {
        let windows = self.windows.drain(..).filter_map(|window| window.upgrade());
        windows.filter_map(|window| window.end().ok().flatten()).collect()
    }
}
