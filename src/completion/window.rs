//! What a completion says of a memory window.

use crate::completion::wc::Completion;
use crate::memory::entry::Entry;
use crate::memory::window::{LentWindow, MemoryWindow};

impl LentWindow {
    /// The window without a key, if `by` is a receive of its queue pair's whose message ended the
    /// key ([`invalidated_rkey`](Completion::invalidated_rkey);
    /// [R10.3](crate::guide::rules#r10-3)). Else it is given back.
    ///
    /// `by` is polled after the window was bound. Keys count in 8 bits: a completion that was kept
    /// while the window was bound 256 times names the key again, which is valid then. (A region
    /// whose window is bound is not deregistered; ibv_dereg_mr(3).)
    ///
    /// Soft-RoCE does not say which key a message ended. There a window is dropped or destroyed
    /// once the peer's message says that it is given back.
    /// [`BindMw`](crate::wr::BindMw) has an example.
    ///
    /// # Errors
    /// The window, as it was.
    #[doc(alias = "revoke")]
    pub fn revoked<E: Entry>(self, by: &Completion<'_, E>) -> Result<MemoryWindow, Self> {
        self.ended_by(by.qp_num(), by.invalidated_rkey(), |names| by.belongs_to(names))
    }
}
