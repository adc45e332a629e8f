//! A memory window as the data of a work request: no bytes, but what the completion gives back.

#![allow(unsafe_code)] // says what its method asks for

use crate::memory::entry::AnyBuf;
use crate::memory::header::Handle;
use crate::memory::window::WindowEntry;
use crate::sys::types::ibv_sge;
use crate::work::data::{Data, Fits, sealed};
use crate::work::limits::Limit;
use crate::work::refusal::fault;
use crate::work::request::{Check, Emitted, How};

impl sealed::Sealed for WindowEntry {}

impl<M: Limit, I: Limit> Fits<M, I> for WindowEntry {}

impl<C: 'static> crate::work::data::sealed::Of<AnyBuf<C>> for WindowEntry {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<C: 'static> Data<AnyBuf<C>> for WindowEntry {
    type Sges = [ibv_sge; 0];
    const IS_ONE: bool = true;

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, _: How, check: &mut Check) -> Emitted<AnyBuf<C>> {
        // The C object that BIND_MW names is live while the queue pair has the counters that the
        // window knows, and did not end it; a list with a window of others is not posted.
        if !self.0.is_of(check.counter) {
            check.note(fault::WINDOW);
        } else if self.0.may_crash() {
            check.note(fault::LOCAL_INV);
        }
        check.see(self.header());
        Emitted { sges, count: 0, entry: Some(AnyBuf::Window(self)), flags: 0, wr_id: 0 }
    }
}
