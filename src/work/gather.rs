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
use crate::work::fault;
use crate::work::request::{Check, Emitted, How, Use, emit_one};

/// The most elements of a run-time list of buffers, with any profile.
pub(crate) const MAX_LIST: usize = 32;

/// The length of one element of several is not compared.
const NO_LIMIT: u32 = u32::MAX;

/// Writes the elements of several buffers.
struct Gather {
    how: How,
    count: usize,
    /// For a READ, the bytes that are still to be placed. Otherwise the sum of the lengths, which
    /// may wrap only if some buffer needs inspection: the lengths of the others are so small that
    /// their sum is a valid message length (`QueueCounters::small`). If a buffer needs inspection,
    /// the list is measured again.
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
    /// There is room at `sges` for one more element, and the header belongs to a handle that the
    /// caller owns.
    #[inline(always)]
    unsafe fn emit(&mut self, header: &Header, sges: *mut ibv_sge, check: &mut Check) {
        // SAFETY: there is room for one more element.
        let sge = unsafe { sges.add(self.count) };
        self.count += 1;
        let mut here = How { limit: NO_LIMIT, ..self.how };
        if here.use_ == Use::Read {
            let part = self.bytes.min(header.capacity());
            self.bytes -= part;
            here.limit = if part == 0 { READS_NOTHING } else { part };
        }
        // SAFETY: the element is writable, and the caller owns the handle.
        let len = unsafe { emit_one(header, sge, here, check) };
        if here.use_ == Use::Write {
            self.bytes = self.bytes.wrapping_add(len);
        }
    }

    /// Compares the total with the limit.
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
                    // SAFETY: there are at most as many buffers as elements, and `self` owns the
                    // handle.
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
            // SAFETY: there are fewer than `most` elements, which is at most MAX_LIST, and the list
            // owns the handle.
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
