//! A memory window as the data of a work request: it has no bytes, but the completion returns it.

#![allow(unsafe_code)] // declares an unsafe method

use super::WindowEntry;
use crate::memory::entry::AnyBuf;
use crate::memory::header::Handle;
use crate::sys::types::ibv_sge;
use crate::work::data::{Data, Fits, sealed};
use crate::work::fault;
use crate::work::limits::Limit;
use crate::work::request::{Check, Emitted, How};

impl sealed::Sealed for WindowEntry {}

impl<M: Limit, I: Limit> Fits<M, I> for WindowEntry {}

impl<C: 'static> sealed::Of<AnyBuf<C>> for WindowEntry {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<C: 'static> Data<AnyBuf<C>> for WindowEntry {
    type Sges = [ibv_sge; 0];
    const IS_ONE: bool = true;

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, _: How, check: &mut Check) -> Emitted<AnyBuf<C>> {
        // The C object that BIND_MW names is alive as long as the queue pair has the counters that
        // the window refers to and has not ended it. A list that contains the window of another
        // queue pair is not posted.
        if !self.0.is_of(check.counter) {
            check.note(fault::WINDOW);
        } else if self.0.may_crash() {
            check.note(fault::LOCAL_INV);
        }
        check.see(self.header().type_tag());
        Emitted { sges, count: 0, entry: Some(AnyBuf::Window(self)), flags: 0, wr_id: 0 }
    }
}
