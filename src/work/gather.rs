//! Several buffers of one work request.

#![allow(unsafe_code)] // writes C scatter/gather elements

use arrayvec::ArrayVec;

use crate::memory::buf::Buf;
use crate::memory::entry::{AnyBuf, Entry};
use crate::memory::header::{Handle, Header};
use crate::memory::list::BufList;
use crate::memory::span::READS_NOTHING;
use crate::sys::types::ibv_sge;
use crate::work::data::Data;
use crate::work::refusal::fault;
use crate::work::request::{Check, Emitted, How, Use, emit_one};

/// Most elements of a run-time list of buffers, whatever the profile says.
pub(crate) const MAX_LIST: usize = 32;

/// No single element of several is compared.
const NO_LIMIT: u32 = u32::MAX;

/// The elements of several buffers, being written.
struct Gather {
    how: How,
    count: usize,
    /// What a READ still brings. Or the sum of the lengths, wrapping: nothing wraps unless some
    /// buffer is looked at, since what is not is so small that the sum is that of a message
    /// (`QueueCounters::small`); and what is looked at is measured again.
    bytes: u32,
}

impl Gather {
    #[inline(always)]
    fn new(how: How) -> Self {
        let is_nothing = how.use_ != Use::Read || how.limit == READS_NOTHING;
        Gather { how, count: 0, bytes: if is_nothing { 0 } else { how.limit } }
    }

    /// Writes the next element.
    ///
    /// # Safety
    /// There is room for it from `sges` on, and the header belongs to a handle that the caller
    /// owns.
    #[inline(always)]
    unsafe fn emit(&mut self, header: &Header, sges: *mut ibv_sge, check: &mut Check) {
        // SAFETY: there is room for one element more.
        let sge = unsafe { sges.add(self.count) };
        self.count += 1;
        let mut here = How { limit: NO_LIMIT, ..self.how };
        if here.use_ == Use::Read {
            let part = self.bytes.min(header.capacity());
            self.bytes -= part;
            here.limit = if part == 0 { READS_NOTHING } else { part };
        }
        // SAFETY: that element is writable, and the handle the caller's.
        let len = unsafe { emit_one(header, sge, here, check) };
        if here.use_ == Use::Write {
            self.bytes = self.bytes.wrapping_add(len);
        }
    }

    /// Compares what they have with the limit.
    #[inline(always)]
    fn end<E>(self, sges: *mut ibv_sge, entry: Option<E>, check: &mut Check) -> Emitted<E> {
        let is_beyond = match self.how.use_ {
            Use::Read => self.bytes != 0,
            Use::Write => self.bytes > self.how.limit,
            _ => false,
        };
        if is_beyond {
            check.look();
        }
        Emitted { sges, count: self.count as i32, entry, flags: 0, wr_id: 0 }
    }
}

macro_rules! gather_list {
    ($t:ty as $e:ty, [$($generics:tt)*], $n:expr, $wrap:expr) => {
        impl<$($generics)*> crate::work::data::sealed::Of<$e> for $t {
            type This = Self;
        }

        #[diagnostic::do_not_recommend]
        impl<$($generics)*> Data<$e> for $t {
            type Sges = [ibv_sge; $n];

            #[inline(always)]
            unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<$e> {
                let mut all = Gather::new(how);
                for buf in self.iter() {
                    // SAFETY: there are at most as many buffers as elements; the handle is ours.
                    unsafe { all.emit(buf.header(), sges, check) };
                }
                let list: BufList<C> = self.into_iter().rev().fold(
                    BufList::new(),
                    |mut list, buf| { list.push_front(buf); list },
                );
                let wrap: fn(BufList<C>) -> $e = $wrap;
                let entry = (!list.is_empty()).then(|| wrap(list));
                all.end(sges, entry, check)
            }
        }
    };
}

gather_list!([Buf<C>; N] as BufList<C>, [C: 'static, const N: usize], N, |list| list);
gather_list!([Buf<C>; N] as AnyBuf<C>, [C: 'static, const N: usize], N, AnyBuf::List);
gather_list!(ArrayVec<Buf<C>, N> as BufList<C>, [C: 'static, const N: usize], N, |list| list);
gather_list!(ArrayVec<Buf<C>, N> as AnyBuf<C>, [C: 'static, const N: usize], N, AnyBuf::List);

impl<C: 'static, E: From<BufList<C>> + Entry> crate::work::data::sealed::Of<E> for BufList<C> {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<C: 'static, E: From<BufList<C>> + Entry> Data<E> for BufList<C> {
    type Sges = [ibv_sge; MAX_LIST];

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<E> {
        let most = (check.max_sge as usize).min(MAX_LIST);
        let mut all = Gather::new(how);
        for header in self.headers() {
            if all.count == most {
                check.note(fault::SGE);
                break;
            }
            // SAFETY: there are fewer than `most`, which is at most MAX_LIST; the list owns the
            // handle.
            unsafe { all.emit(header, sges, check) };
        }
        let entry = (!self.is_empty()).then(|| E::from(self));
        all.end(sges, entry, check)
    }
}

impl<C: 'static> From<BufList<C>> for AnyBuf<C> {
    fn from(list: BufList<C>) -> Self {
        AnyBuf::List(list)
    }
}
