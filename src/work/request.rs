//! A work request, and how it becomes a C work request: the descriptor, the slot that it is written
//! to, the element of its buffer, and what the post records about it.
//!
//! Emitting a work request writes only the fields that its opcode reads. The module
//! [`rules`](crate::rules) defines which descriptor can be posted where.

#![allow(unsafe_code)] // writes C work requests

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::allows::{Allows, call};
use crate::black_box::black_box;
use crate::counters::queue_counters::CompletionCounter;
use crate::counters::type_tag;
use crate::memory::any_list::AnyList;
use crate::memory::buf::Buf;
use crate::memory::entry::{AnyBuf, Entry};
use crate::memory::header::{Handle, Header};
use crate::memory::implicit::ImplicitBuf;
use crate::memory::list::BufList;
use crate::memory::open_buf::OpenBuf;
use crate::memory::read_only_buf::ReadOnlyBuf;
use crate::memory::shared::SharedBuf;
use crate::memory::span::READS_NOTHING;
use crate::sys::ah_table::AhKeys;
use crate::sys::data::Operands;
use crate::sys::types::{ibv_recv_wr, ibv_send_wr, ibv_sge};
use crate::work::address::{Address, Connected};
use crate::work::data::Data;
use crate::work::flags::{Plain, SendFlags, Unfenced};
use crate::work::opcode::Opcode;
use crate::work::opcode::bounds::SolicitedOp;

/// A send work request (`struct ibv_send_wr` of ibv_post_send(3)), with the opcode `O` and its
/// operands, the data `D`, and the address `A`. `F` says whether it is fenced, `G` whether it is
/// signaled.
///
/// The opcodes have the constructors: `wr::Send::new(buf)`, `wr::RdmaWrite::inline(&bytes, remote)`
/// and so on.
///
/// ```
/// # use proverbs::prelude::*;
/// profile! { Stream { signaling: Selective } }
///
/// /// The end of a stream: it wakes the peer, and completes when all sends are done.
/// fn last(buf: Buf) -> wr::WorkRequest<wr::Send, Buf, wr::Connected, wr::Unfenced, wr::Signaled> {
///     wr::Send::new(buf).solicited().signaled()
/// }
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
/// #     proverbs::loopback::pair_of::<Stream>()?;
/// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(last(pool.take().ok_or("no buffer")?))?;
/// # proverbs::loopback::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_send_flags", "ibv_send_wr", "send_flags"))]
#[must_use = "a work request does nothing until it is posted"]
pub struct WorkRequest<O, D, A = Connected, F = Unfenced, G = Plain> {
    pub(crate) op: O,
    pub(crate) data: D,
    pub(super) address: A,
    pub(super) flags: u32,
    pub(super) use_: Use,
    _marks: PhantomData<(F, G)>,
}

#[inline(always)]
pub(crate) fn request<O, D>(op: O, data: D, use_: Use) -> WorkRequest<O, D> {
    WorkRequest { op, data, address: Connected, flags: 0, use_, _marks: PhantomData }
}

allows! { [O: SolicitedOp, D, A, F, G] WorkRequest<O, D, A, F, G>: SetSolicited; }

impl<O, D, A, F, G> WorkRequest<O, D, A, F, G> {
    /// Adds `flags` to its own.
    #[inline(always)]
    pub(crate) fn flagged(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }

    /// Requests a solicited event at the peer (`IBV_SEND_SOLICITED`;
    /// [R2.3](crate::guide::rules#r2-3), [`Notify::Solicited`](crate::completion::Notify)).
    #[doc(alias = "IBV_SEND_SOLICITED")]
    #[inline(always)]
    pub fn solicited(self) -> Self
    where
        Self: Allows<call::SetSolicited>,
    {
        self.flagged(SendFlags::SOLICITED.bits())
    }

    #[inline(always)]
    pub(super) fn with_data<D2>(self, change: impl FnOnce(D) -> D2) -> WorkRequest<O, D2, A, F, G> {
        let WorkRequest { op, data, address, flags, use_, _marks } = self;
        WorkRequest { op, data: change(data), address, flags, use_, _marks }
    }

    #[inline(always)]
    pub(crate) fn with<A2, F2, G2>(
        self,
        address: impl FnOnce(A) -> A2,
        flags: SendFlags,
    ) -> WorkRequest<O, D, A2, F2, G2> {
        let WorkRequest { op, data, use_, .. } = self;
        let (address, flags) = (address(self.address), self.flags | flags.bits());
        WorkRequest { op, data, address, flags, use_, _marks: PhantomData }
    }
}

/// A send work request, for code that does not know its type.
#[doc(hidden)]
pub trait Flagged: Sized {
    /// Adds `flags` to its own.
    ///
    /// # Safety
    /// The rules allow these flags for the work request.
    unsafe fn flagged(self, flags: u32) -> Self;
}

impl<O, D, A, F, G> Flagged for WorkRequest<O, D, A, F, G> {
    #[inline(always)]
    unsafe fn flagged(self, flags: u32) -> Self {
        self.flagged(flags)
    }
}

/// A description of a work request for a queue with entries `E`: a [`WorkRequest`], or a
/// [`Recv`](crate::wr::Recv).
pub(crate) trait Work<E: Entry> {
    /// The C struct.
    type Wr;
    type Data: Data<E>;

    /// Whether it is already filled and ends its list.
    const IS_FILLED: bool = false;

    /// Restores a filled work request after cold code may have removed its element.
    ///
    /// # Safety
    /// `wr` is this work request, emitted, and no list that contains it is being posted.
    unsafe fn restore(_wr: *mut Self::Wr) {}

    /// Writes the work request, except `wr_id` and `next`.
    ///
    /// # Safety
    /// `slot` is writable, has room for the elements, and lives until the post. `check` has the
    /// queue's address handles. A work request without bookkeeping names only an address handle of
    /// the queue, by the contract of its post.
    unsafe fn emit(
        self,
        slot: *mut Slot<Self::Wr, <Self::Data as Data<E>>::Sges>,
        check: &mut Check,
    ) -> Pending<E, Self::Data>;
}

/// The result of emission, for the post: the entry, the program's part of the wr_id, what the verb
/// knows about the work request, and the type of the data, whose borrows must last until the post.
#[doc(hidden)]
pub struct Pending<E, D, O = (), K = ()> {
    pub entry: Option<E>,
    pub wr_id: u64,
    pub known: K,
    pub(super) data: PhantomData<(D, O)>,
}

impl<E, D> Pending<E, D> {
    #[inline(always)]
    pub(super) fn new(entry: Option<E>, wr_id: u64) -> Self {
        Pending { entry, wr_id, known: (), data: PhantomData }
    }

    /// Adds the `Known` value that the verb returned for the work request.
    #[inline(always)]
    pub(crate) fn known_as<K>(self, known: K) -> Pending<E, D, (), K> {
        Pending { entry: self.entry, wr_id: self.wr_id, known, data: PhantomData }
    }
}

impl<E, W, K> Pending<E, W, (), K> {
    /// Converts it for a work request with this opcode and this data.
    #[inline(always)]
    pub(crate) fn of<D, O>(self) -> Pending<E, D, O, K> {
        Pending { entry: self.entry, wr_id: self.wr_id, known: self.known, data: PhantomData }
    }
}

impl<E, D, O, K> Pending<E, D, O, K> {
    /// Its opcode, for the work requests that follow it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn opcode(&self) -> PhantomData<O> {
        PhantomData
    }
}

impl<E: Entry, O: Opcode, D: Data<E>, A: Address, F, G> Work<E> for WorkRequest<O, D, A, F, G> {
    type Wr = ibv_send_wr;
    type Data = D;

    #[inline(always)]
    unsafe fn emit(self, slot: *mut SendSlot<D::Sges>, check: &mut Check) -> Pending<E, D> {
        // SAFETY: the slot is writable, has room for `D::Sges`, and lives until the post. The
        // fields of the head are contiguous (`sys::layout`). The check has the address handles.
        unsafe {
            let (wr, sges) = Slot::parts(slot);
            let how = How { use_: self.use_, limit: self.op.limit() };
            let emitted = self.data.emit(sges, how, check);
            (*wr).sg_list = emitted.sges;
            // The number of elements, the opcode, the flags and the immediate, which an opcode with
            // an immediate overwrites. They are one store of 16 bytes.
            let head = [emitted.count as u32, O::CODE, self.flags | emitted.flags, 0];
            (&raw mut (*wr).num_sge).cast::<[u32; 4]>().write(head);
            let mut operands = Operands::of(wr);
            self.op.emit(&mut operands);
            self.address.write::<O>(&mut operands);
            if E::OWNED {
                self.address.check(check);
            }
            Pending::new(emitted.entry, emitted.wr_id)
        }
    }
}

/// Room on the stack for one work request `W` and its elements `G`, an array of `ibv_sge`, which
/// are written in place.
///
/// Its pointers (`next`, `sg_list`) derive from one raw pointer and stay valid, because the slot
/// does not move between emission and post.
#[repr(C)]
#[doc(hidden)]
pub struct Slot<W, G> {
    wr: MaybeUninit<W>,
    sges: MaybeUninit<G>,
}

#[doc(hidden)]
pub type SendSlot<G> = Slot<ibv_send_wr, G>;
#[doc(hidden)]
pub type RecvSlot<G> = Slot<ibv_recv_wr, G>;

impl<W, G> Slot<W, G> {
    #[inline(always)]
    #[allow(clippy::new_without_default)] // not public
    pub fn new() -> Self {
        Slot { wr: MaybeUninit::uninit(), sges: MaybeUninit::uninit() }
    }

    /// The work request, and the first element.
    ///
    /// # Safety
    /// `slot` is writable.
    #[inline(always)]
    pub(super) unsafe fn parts(slot: *mut Self) -> (*mut W, *mut ibv_sge) {
        // SAFETY: the field is inside the slot, and no reference is created.
        (slot.cast(), unsafe { &raw mut (*slot).sges }.cast())
    }
}

/// How a buffer is used. It is sent (its length counts; at most the limit, for a WRITE), filled by
/// a READ, or by a receive (its capacity counts), or holds the result of an atomic.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Send,
    Write,
    Read,
    Fill,
    Atomic,
}

/// How a buffer is used, and the length of the remote slice of a WRITE or a READ in bytes.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct How {
    pub use_: Use,
    pub limit: u32,
}

impl How {
    /// Whether a WRITE of `len` bytes exceeds the slice.
    #[inline(always)]
    pub(super) fn is_beyond(self, len: usize) -> bool {
        self.use_ == Use::Write && len as u64 > self.limit.into()
    }
}

/// The elements: those that were written, or the one in a buffer's header. Also the entry and its
/// flags.
#[doc(hidden)]
pub struct Emitted<E> {
    pub sges: *mut ibv_sge,
    pub count: i32,
    pub entry: Option<E>,
    pub flags: u32,
    /// On the `unsafe` path, the program's wr_id. Otherwise, the bits that encode the number that
    /// the program set.
    pub wr_id: u64,
}

/// Checks the only buffer of a work request, and returns its element: the one in its header, or
/// `slot` if the element differs. An empty element must be removed, because some devices read
/// length 0 as 2^31 (R3.3). The buffer's type tag then requests an inspection before the post.
///
/// A WRITE sends at most `limit` bytes of it. A READ fills its first `limit` bytes and sets its
/// length to that, if its length can change. A buffer that does not fit is marked for inspection
/// too, so the check costs only the comparison.
///
/// # Safety
/// `slot` is writable, and the header belongs to a handle that the caller owns.
#[inline(always)]
unsafe fn element(
    header: &Header,
    slot: *mut ibv_sge,
    How { use_, limit }: How,
    has_len: bool,
    check: &mut Check,
) -> *mut ibv_sge {
    let mut element = if use_ == Use::Fill { header.to_fill() } else { header.to_send() };
    match use_ {
        Use::Write if header.len() > limit => header.look_seldom(),
        // The buffer contains these 8 bytes afterwards. A smaller buffer is inspected and rejected.
        Use::Atomic => header.set_some_len(8),
        Use::Read => {
            // (Otherwise the compiler also loads half of the word that contains it: 1 instruction.)
            let limit = black_box(limit);
            // A buffer that was used for the same READ before already has the length.
            if header.len() != limit {
                let here = cut(header, limit);
                if has_len {
                    header.set_some_len(here);
                } else {
                    // SAFETY: the slot is writable, and has the layout of the header's element.
                    unsafe {
                        slot.cast::<[u64; 2]>().copy_from_nonoverlapping(element, 1);
                        (*slot).length = here;
                    }
                    element = slot.cast();
                }
            }
        }
        _ => {}
    }
    check.see(header.type_tag());
    element.cast_mut().cast()
}

/// How many of the `limit` bytes of a READ the buffer takes. One comparison detects both a buffer
/// that is too small and an empty READ, whose element is removed.
#[inline(always)]
fn cut(header: &Header, limit: u32) -> u32 {
    if limit <= header.capacity() {
        return limit;
    }
    header.look_seldom();
    if limit == READS_NOTHING { 0 } else { header.capacity() }
}

/// Writes the element of one of several buffers, checked like the only one in `element`, and
/// returns its length.
///
/// # Safety
/// `sge` is writable, and the header belongs to a handle that the caller owns.
#[inline(always)]
pub(super) unsafe fn emit_one(
    header: &Header,
    sge: *mut ibv_sge,
    How { use_, limit }: How,
    has_len: bool,
) -> u32 {
    // The length may have been stored just now, and a load of 16 bytes would wait for that store.
    // The element for receives has the same address and key, and its length is rarely stored.
    let len = match use_ {
        Use::Fill => header.capacity(),
        Use::Read => cut(header, limit),
        _ => header.len(),
    };
    // SAFETY: the slot's element is writable, and the header's has the layout of an `ibv_sge`.
    unsafe {
        sge.cast::<[u64; 2]>().copy_from_nonoverlapping(header.to_fill(), 1);
        if use_ != Use::Fill {
            (*sge).length = len;
        }
    }
    if use_ == Use::Read && has_len {
        header.set_some_len(len);
    }
    len
}

macro_rules! single {
    ($t:ty as $e:ty, [$($generics:tt)*], $has_len:expr, $wrap:expr) => {
        impl<$($generics)*> crate::work::data::sealed::Of<$e> for $t {
            type This = Self;
        }

        #[diagnostic::do_not_recommend]
        impl<$($generics)*> Data<$e> for $t {
            type Sges = [ibv_sge; 1];
            const IS_ONE: bool = true;

            #[inline(always)]
            unsafe fn emit(self, sges: *mut ibv_sge, how: How, check: &mut Check) -> Emitted<$e> {
                // SAFETY: `sges` has room for one element, and `self` owns the handle. The returned
                // element is in the header, which lives while the device owns the handle. Only the
                // holder of the handle writes to it.
                let sges = unsafe { element(self.header(), sges, how, $has_len, check) };
                let wrap: fn($t) -> $e = $wrap;
                Emitted { sges, count: 1, entry: Some(wrap(self)), flags: 0, wr_id: 0 }
            }
        }
    };
}

single!(Buf<C> as Buf<C>, [C: 'static], true, |buf| buf);
single!(Buf<C> as BufList<C>, [C: 'static], true, |buf| [buf].into());
single!(Buf<C> as AnyBuf<C>, [C: 'static], true, AnyBuf::Buf);
single!(SharedBuf as SharedBuf, [], false, |buf| buf);
single!(SharedBuf as AnyBuf<C>, [C: 'static], false, AnyBuf::Shared);
single!(OpenBuf as OpenBuf, [], false, |buf| buf);
single!(ImplicitBuf<T, O> as ImplicitBuf<T, O>, [T: 'static, O: 'static], false, |buf| buf);
single!(ImplicitBuf<T, O> as AnyBuf<C>, [T: 'static, O: 'static, C: 'static], false, |buf| {
    AnyBuf::Implicit(ImplicitBuf(buf.0, PhantomData))
});
single!(OpenBuf as AnyBuf<C>, [C: 'static], false, AnyBuf::Open);
single!(Buf<C> as AnyList<C>, [C: 'static], true, AnyList::from);
single!(OpenBuf as AnyList<C>, [C: 'static], false, AnyList::from);
single!(SharedBuf as AnyList<C>, [C: 'static], false, AnyList::from);
single!(ReadOnlyBuf as AnyList<C>, [C: 'static], false, AnyList::from);
single!(ReadOnlyBuf as ReadOnlyBuf, [], false, |buf| buf);
single!(ReadOnlyBuf as AnyBuf<C>, [C: 'static], false, AnyBuf::ReadOnlyPiece);

/// The values that one post checks its work requests against, and the result. It is kept in
/// registers, so it only records faults, and cold code inspects them.
#[doc(hidden)]
pub struct Check {
    /// The value in the headers of buffers that the queue owns.
    pub(crate) counter: *const CompletionCounter,
    /// The address handles of the queue, valid until the queue is borrowed again.
    pub(crate) ah: *const AhKeys,
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
    /// The faults that do not concern buffers, from `fault`.
    pub(crate) faults: u32,
    /// The type tags of the buffers, combined with OR.
    pub(crate) seen: u64,
}

impl Check {
    /// `counter` is the value in the headers of buffers that the queue owns.
    #[inline(always)]
    pub(crate) fn new(counter: *const CompletionCounter, max_sge: u32, max_inline: u32) -> Self {
        let ah = std::ptr::null();
        Check { counter, ah, max_sge, max_inline, faults: 0, seen: 0 }
    }

    /// Records the type tag of a buffer.
    #[inline(always)]
    pub(crate) fn see(&mut self, type_tag: u64) {
        self.seen |= type_tag;
    }

    /// Records that a send with several buffers needs inspection, because it exceeds its remote
    /// slice or its buffers.
    #[inline(always)]
    pub(super) fn look(&mut self) {
        self.seen |= type_tag::LOOK;
    }

    /// Records another fault, from `fault`.
    #[inline(always)]
    pub(crate) fn note(&mut self, fault: u32) {
        self.faults |= fault;
    }

    /// Marks an entry as owned by the queue, in its header, before the post, so that a list does
    /// not access a header twice. If it is not posted after all, whatever code takes it back clears
    /// the mark.
    #[inline(always)]
    pub(crate) fn give<E: Entry>(&self, entry: &Option<E>) {
        if let Some(entry) = entry {
            // SAFETY: the entry of a work request has a buffer (`Data::emit`).
            unsafe { entry.first() }.give(self.counter);
        }
    }

    /// The result, for a queue with this `mismatch` mask. Call it once, so that one instruction
    /// tests the result and keeps it.
    #[inline(always)]
    pub(crate) fn found(&self, mismatch: u64) -> Found {
        Found { faults: self.faults, mismatch: self.seen & mismatch }
    }

    /// Like `found`, for one work request whose data `is_one` buffer or may be several. The type
    /// tag of a single buffer is read here, as the operand of the test.
    #[inline(always)]
    pub(crate) fn found_in<E: Entry>(
        &self,
        entry: &Option<E>,
        is_one: bool,
        mismatch: u64,
    ) -> Found {
        match entry {
            Some(entry) if is_one => {
                // SAFETY: the entry of a work request has a buffer (`Data::emit`).
                let header = unsafe { entry.first() };
                Found { faults: self.faults, mismatch: header.type_tag() & mismatch }
            }
            _ => self.found(mismatch),
        }
    }
}

/// The result of emission, for cold code, in two registers.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub faults: u32,
    /// Not 0 if a buffer needs inspection.
    pub mismatch: u64,
}

impl Found {
    /// Whether there are no faults, and no buffer needs inspection.
    #[inline(always)]
    pub fn is_clear(self) -> bool {
        self.faults == 0 && self.mismatch == 0
    }
}

impl_debug!([O: Opcode, D, A, F, G] WorkRequest<O, D, A, F, G>, |_| "WorkRequest({})", O::NAME);
