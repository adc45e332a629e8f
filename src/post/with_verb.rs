//! Posts one work request by a verb of its own, with the bookkeeping of the others.

#![allow(unsafe_code)] // emits and posts

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr;

use crate::post::chain::Post;
use crate::post::path::Posted;
use crate::post::queue::Kind;
use crate::post::slow::look_and_post;
use crate::sys::data::Link;
use crate::terms::transport::Transport;
use crate::work::data::Data;
use crate::work::request::{Slot, Work};

impl<T: Transport, Q: Kind> Post<'_, T, Q> {
    /// Posts a work request by `verb`, which is C's `name`. As for the verbs that post lists, `bad`
    /// is the work request if it was refused, and stays null if nobody knows.
    ///
    /// # Safety
    /// The queue may have it by the rules. `verb` posts it to the queue's object, which is live, or
    /// gives an errno.
    #[cold]
    pub(crate) unsafe fn post_with_verb<W: Work<Q::Entry, Wr = Q::Wr>>(
        mut self,
        wr: W,
        name: &'static str,
        verb: impl FnOnce(*mut Q::Object, *mut Q::Wr, *mut *mut Q::Wr) -> c_int,
    ) -> Posted<Q> {
        let mut slot = Slot::<Q::Wr, <W::Data as Data<Q::Entry>>::Sges>::new();
        let slot = &raw mut slot;
        let first = slot.cast::<Q::Wr>();
        // SAFETY: the slot is a local for the elements of this work request, and stays until the
        // post. The entry is given up: it is posted, or never will be.
        let posted = unsafe {
            let entry = ManuallyDrop::new(self.put(0, wr, slot, ptr::null_mut()).entry);
            (*Link::head(first)).next = ptr::null_mut();
            let is_one = <W::Data as Data<Q::Entry>>::IS_ONE;
            let found = self.check.found_in(&entry, is_one, self.mismatch());
            look_and_post(self.queue, found, 1, first, verb)
        };
        posted.map_err(|error| error.of(name))
    }
}
