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
use crate::work::request::{Check, Emitted, Use, emit_one};

/// Most elements of a run-time list of buffers, whatever the profile says.
pub(crate) const MAX_LIST: usize = 32;

/// No single element of several is compared.
const NO_LIMIT: u32 = u32::MAX;

/// The elements of several buffers, being written.
struct Several {
    use_: Use,
    limit: u32,
    count: usize,
    /// What a READ still brings. Or the sum of the lengths, wrapping: nothing wraps unless some
    /// buffer is looked at, since what is not is so small that the sum is that of a message
    /// (`Books::small`); and what is looked at is measured again.
    bytes: u32,
}

impl Several {
    #[inline(always)]
    fn new(use_: Use, limit: u32) -> Self {
        let is_nothing = use_ != Use::Read || limit == READS_NOTHING;
        Several { use_, limit, count: 0, bytes: if is_nothing { 0 } else { limit } }
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
        let mut here = NO_LIMIT;
        if self.use_ == Use::Read {
            let part = self.bytes.min(header.capacity());
            self.bytes -= part;
            here = if part == 0 { READS_NOTHING } else { part };
        }
        // SAFETY: that element is writable, and the handle the caller's.
        let len = unsafe { emit_one(header, sge, (self.use_, here), check) };
        if self.use_ == Use::Write {
            self.bytes = self.bytes.wrapping_add(len);
        }
    }

    /// Compares what they have with the limit. Gives their number.
    #[inline(always)]
    fn end(self, check: &mut Check) -> usize {
        let is_beyond = match self.use_ {
            Use::Read => self.bytes != 0,
            Use::Write => self.bytes > self.limit,
            _ => false,
        };
        if is_beyond {
            check.look();
        }
        self.count
    }
}

macro_rules! several {
    ($t:ty as $e:ty, [$($generics:tt)*], $n:expr, $wrap:expr) => {
        impl<$($generics)*> Data<$e> for $t {
            type Sges = [ibv_sge; $n];

            #[inline(always)]
            unsafe fn emit(
                self,
                sges: *mut ibv_sge,
                use_: Use,
                limit: u32,
                check: &mut Check,
            ) -> Emitted<$e> {
                let mut all = Several::new(use_, limit);
                for buf in self.iter() {
                    // SAFETY: there are at most as many buffers as elements; the handle is ours.
                    unsafe { all.emit(buf.header(), sges, check) };
                }
                let count = all.end(check);
                let list: BufList<C> = self.into_iter().rev().fold(
                    BufList::new(),
                    |mut list, buf| { list.push_front(buf); list },
                );
                let entry = (!list.is_empty()).then(|| { let wrap: fn(BufList<C>) -> $e = $wrap; wrap(list) });
                Emitted { sges, count: count as i32, entry, flags: 0, wr_id: 0 }
            }
        }
    };
}

several!([Buf<C>; N] as BufList<C>, [C: 'static, const N: usize], N, |list| list);
several!([Buf<C>; N] as AnyBuf<C>, [C: 'static, const N: usize], N, AnyBuf::List);
several!(ArrayVec<Buf<C>, N> as BufList<C>, [C: 'static, const N: usize], N, |list| list);
several!(ArrayVec<Buf<C>, N> as AnyBuf<C>, [C: 'static, const N: usize], N, AnyBuf::List);

impl<C: 'static, E: From<BufList<C>> + Entry> Data<E> for BufList<C> {
    type Sges = [ibv_sge; MAX_LIST];

    #[inline(always)]
    unsafe fn emit(
        self,
        sges: *mut ibv_sge,
        use_: Use,
        limit: u32,
        check: &mut Check,
    ) -> Emitted<E> {
        let most = (check.max_sge as usize).min(MAX_LIST);
        let mut all = Several::new(use_, limit);
        for header in self.headers() {
            if all.count == most {
                check.note(fault::SGE);
                break;
            }
            // SAFETY: there are fewer than `most`, which is at most MAX_LIST; the list owns the
            // handle.
            unsafe { all.emit(header, sges, check) };
        }
        let count = all.end(check);
        let entry = (!self.is_empty()).then(|| E::from(self));
        Emitted { sges, count: count as i32, entry, flags: 0, wr_id: 0 }
    }
}

impl<C: 'static> From<BufList<C>> for AnyBuf<C> {
    fn from(list: BufList<C>) -> Self {
        AnyBuf::List(list)
    }
}
