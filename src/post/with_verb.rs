//! Posts one work request with its own verb, with the same bookkeeping as the others.

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
    /// Posts a work request with `verb`, whose C name is `name`. As for verbs that post lists,
    /// `bad` is set to the work request if it was rejected, and stays null if that is unknown.
    ///
    /// # Safety
    /// The rules allow the work request on this queue. `verb` posts it to the queue's object, which
    /// is alive, or returns an errno.
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
        // SAFETY: the slot is a local with room for the elements of this work request, and lives
        // until the post. The entry is given up, whether or not the post succeeds.
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
