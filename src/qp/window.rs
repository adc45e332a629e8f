//! The memory windows of a queue pair, which end before it.

use std::sync::{Arc, Weak};

use super::Core;
use crate::memory::window::{Owner, StaleKeys};
use crate::profile::Profile;
use crate::sys::handle;

/// The memory windows of a queue pair.
#[derive(Default)]
pub(crate) struct Windows {
    /// All windows of type 2. Some may be gone.
    pub all: Vec<Weak<Owner>>,
    /// The keys that completions of its receives may still report, once it has had windows.
    pub stale_keys: Option<Arc<StaleKeys>>,
    /// Windows that ended. Their regions may run the program's code when dropped, which may panic.
    /// So they are dropped where the queue pair is consistent, or gone.
    pub ended: Vec<handle::Mw>,
}

impl<P: Profile> Core<P> {
    /// Deallocates the windows: the queue pair is about to be destroyed, or was reset. Windows that
    /// the device refuses to deallocate stay alive, and stay in the list. The others move to
    /// `ended`.
    pub(super) fn end_windows(&mut self) {
        let Windows { all, ended, .. } = &mut self.aside.windows;
        all.retain(|window| match window.upgrade().map(|window| window.end()) {
            Some(Err(_)) => true,
            Some(Ok(mw)) => {
                ended.extend(mw);
                false
            }
            None => false,
        });
    }
}
