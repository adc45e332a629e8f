//! Several buffers and pieces of one work request.

#![allow(unsafe_code)] // writes C scatter/gather elements

use arrayvec::ArrayVec;

use crate::counters::type_tag;
use crate::memory::any_list::AnyList;
use crate::memory::buf::Buf;
use crate::memory::entry::{AnyBuf, Entry};
use crate::memory::header::{Handle, Header, word};
use crate::memory::list::BufList;
use crate::memory::open_buf::OpenBuf;
use crate::memory::read_only_buf::ReadOnlyBuf;
use crate::memory::shared::SharedBuf;
use crate::memory::span::READS_NOTHING;
use crate::sys::types::ibv_sge;
use crate::work::data::Data;
use crate::work::fault;
use crate::work::request::{Check, Emitted, How, Use, emit_one};

/// The maximum number of elements of a run-time list of buffers, with any profile.
pub(crate) const MAX_LIST: usize = 32;

/// No limit for a single element: only the total length of several elements is compared.
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
    /// There is room at `sges` for one more element, and the header belongs to a handle of this
    /// kind that the caller owns.
    #[inline(always)]
    unsafe fn emit(&mut self, header: &Header, kind: usize, sges: *mut ibv_sge, check: &mut Check) {
        let is_buf = kind == word::EXCLUSIVE;
        if !is_buf && kind != word::OPEN && matches!(self.how.use_, Use::Read | Use::Fill) {
            check.note(fault::NOT_WRITABLE);
        }
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
        let len = unsafe { emit_one(header, sge, here, is_buf) };
        let type_tag = header.type_tag();
        // The first buffer, which belongs to the pool of the queue, limits the receives of a shared
        // receive queue. A piece behind it can belong to any region.
        let is_behind = self.how.use_ == Use::Fill && !is_buf && self.count > 1;
        check.see(if is_behind { type_tag::of_any_pool(type_tag) } else { type_tag });
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

/// Data of at most `$n` elements, which becomes a list. The block calls `see` with each.
macro_rules! gather {
    (@ [$($generics:tt)*] $t:ty, $n:tt, $list:ident as $e:ty: [$it:ident $see:ident] $each:block) => {
        impl<$($generics)*> crate::work::data::sealed::Of<$e> for $t {
            type This = Self;
        }

        #[diagnostic::do_not_recommend]
        impl<$($generics)*> Data<$e> for $t {
            type Sges = [ibv_sge; $n];

            #[inline(always)]
            unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<$e> {
                let mut all = Gather::new(how);
                let ($it, mut $see) = (&self, |header: &Header, kind| {
                    // SAFETY: there are as many handles as elements, and `self` owns them.
                    unsafe { all.emit(header, kind, sges, check) };
                });
                $each
                let list = $list::<C>::from(self);
                let entry = (!list.is_empty()).then(|| list.into());
                all.end(sges, entry, check)
            }
        }
    };
    ($generics:tt $t:ty, $n:tt, $list:ident as $($e:ident)*: $names:tt $each:tt) => {
        $(gather!(@ $generics $t, $n, $list as $e<C>: $names $each);)*
    };
}

gather!([C: 'static, const N: usize] [Buf<C>; N], N, BufList as BufList AnyBuf AnyList: [bufs see] {
    bufs.iter().for_each(|buf| see(buf.header(), word::EXCLUSIVE));
});
gather!([C: 'static, const N: usize] ArrayVec<Buf<C>, N>, N, BufList as BufList AnyBuf AnyList:
    [bufs see] {
        bufs.iter().for_each(|buf| see(buf.header(), word::EXCLUSIVE));
    }
);

macro_rules! gather_pieces {
    ($($piece:ty)*) => {$(
        gather!([C: 'static, const N: usize] [$piece; N], N, AnyList as AnyList AnyBuf: [all see] {
            all.iter().for_each(|piece| see(piece.header(), <$piece>::KIND));
        });
        gather!([C: 'static] (Buf<C>, $piece), 2, AnyList as AnyList AnyBuf: [pair see] {
            see(pair.0.header(), word::EXCLUSIVE);
            see(pair.1.header(), <$piece>::KIND);
        });
    )*};
}

gather_pieces! { OpenBuf SharedBuf ReadOnlyBuf }

impl<C: 'static, E: From<AnyList<C>> + Entry> crate::work::data::sealed::Of<E> for AnyList<C> {
    type This = Self;
}

impl<C: 'static, E: From<BufList<C>> + Entry> crate::work::data::sealed::Of<E> for BufList<C> {
    type This = Self;
}

macro_rules! gather_at_run_time {
    ($list:ident, |$of:ident| $kinds:expr) => {
        #[diagnostic::do_not_recommend]
        impl<C: 'static, E: From<$list<C>> + Entry> Data<E> for $list<C> {
            type Sges = [ibv_sge; MAX_LIST];

            #[inline(always)]
            unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<E> {
                let most = (check.max_sge as usize).min(MAX_LIST);
                let mut all = Gather::new(how);
                let $of = &self;
                for (header, kind) in $kinds {
                    if all.count == most {
                        check.note(fault::SGE);
                        break;
                    }
                    // SAFETY: there are fewer than `most` elements, which is at most MAX_LIST, and
                    // the list owns the handle.
                    unsafe { all.emit(header, kind, sges, check) };
                }
                let entry = (!self.is_empty()).then(|| E::from(self));
                all.end(sges, entry, check)
            }
        }
    };
}

gather_at_run_time!(BufList, |list| list.headers().map(|header| (header, word::EXCLUSIVE)));
gather_at_run_time!(AnyList, |list| list.kinds());

impl<C: 'static> From<BufList<C>> for AnyBuf<C> {
    fn from(list: BufList<C>) -> Self {
        AnyBuf::List(list.into())
    }
}

impl<C: 'static> From<AnyList<C>> for AnyBuf<C> {
    fn from(list: AnyList<C>) -> Self {
        AnyBuf::List(list)
    }
}
