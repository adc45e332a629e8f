//! Work requests that are filled once and posted many times.

#![allow(unsafe_code)] // keeps C work requests, and posts them again

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::allows::{Allows, Same, call};
use crate::memory::buf::Buf;
use crate::memory::entry::{Entry, Owned};
use crate::memory::open_buf::OpenBuf;
use crate::memory::read_only_buf::ReadOnlyBuf;
use crate::memory::shared::SharedBuf;
use crate::sys::data::Operands;
use crate::sys::types::{ibv_send_wr, ibv_sge, zeroed};
use crate::work::address::{Address, Connected};
use crate::work::data::Data;
use crate::work::fault;
use crate::work::flags::{Plain, SendFlags, Unfenced};
use crate::work::inline::Inline;
use crate::work::opcode::{
    self, CmpAndSwp, FetchAndAdd, Opcode, RdmaRead, RdmaWrite, RdmaWriteWithImm, SendWithImm,
};
use crate::work::request::{Check, Emitted, How, Pending, SendSlot, Use, Work, WorkRequest};

/// The data of a work request that is filled before its buffer is known. Each post of the
/// [`Prepared`] work request supplies a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placeholder;

/// A work request that is filled once and posted many times (`struct ibv_send_wr` of
/// ibv_post_send(3)). A post writes only the part that changes: the buffer.
///
/// [`prepare`](WorkRequest::prepare) creates it from a work request with [`Placeholder`] as its
/// data, or with inline bytes, which it stores. It is not bound to a queue pair: each post has the
/// bounds and checks of [`post_send`](crate::QueuePair::post_send), so it can be posted to every
/// queue pair that accepts the work request itself. You can drop it at any time, because the device
/// has read it when the post returns.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteWrite>(256)?;
/// let mut write = wr::RdmaWrite::new(wr::Placeholder, region.remote().write()).prepare();
/// let mut spare = pool.take();
/// for round in 0..3 {
///     let mut buf = spare.take().ok_or("no buffer")?;
///     buf.fill(round);
///     a.post_prepared(&mut write, buf)?;
///     spare = proverbs::loopback::poll(&mut cq, 1)?.remove(0);
/// }
/// let mut there = [0; 256];
/// region.read_at(0, &mut there)?;
/// assert_eq!(there, [2; 256]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Prepared<O, X, A = Connected, F = Unfenced, G = Plain> {
    // Invariants: `wr_box` came from a `Box` that only this value owns. All fields of its work
    // request that its opcode reads are written, except `wr_id` and, with [`Placeholder`],
    // `sg_list`. `next` is null. It has one element, or none if it has no inline bytes. With inline
    // bytes, `sg_list` points to its own element, which names its own bytes.
    wr_box: NonNull<PreparedWr<X, A>>,
    _marks: PhantomData<(O, F, G)>,
}

/// It starts with the layout of a slot with one element.
#[repr(C)]
struct PreparedWr<X, A> {
    wr: ibv_send_wr,
    sge: ibv_sge,
    /// The limit of a WRITE or a READ. None if the use does not have one.
    how: How,
    flags: u32,
    address: A,
    data: X,
}

// SAFETY: it owns what it points to: numbers, and the caller's bytes.
unsafe impl<O, X: Send, A: Send, F, G> Send for Prepared<O, X, A, F, G> {}
// SAFETY: a shared reference only gives access to its bytes.
unsafe impl<O, X: Sync, A: Sync, F, G> Sync for Prepared<O, X, A, F, G> {}

impl<O, X, A, F, G> Drop for Prepared<O, X, A, F, G> {
    fn drop(&mut self) {
        // SAFETY: it came from a `Box` that only this value owns (invariant), and no post is in
        // progress.
        drop(unsafe { Box::from_raw(self.wr_box.as_ptr()) });
    }
}

impl<O: Opcode, X, A: Address, F, G> Prepared<O, X, A, F, G> {
    /// Fills a work request with `count` elements.
    fn fill(wr: WorkRequest<O, X, A, F, G>, count: u32) -> Self {
        let WorkRequest { op, data, address, flags, use_, .. } = wr;
        let wr = ibv_send_wr { num_sge: count as i32, opcode: O::CODE, ..zeroed() };
        let sge = ibv_sge { addr: 0, length: 0, lkey: 0 };
        let how = How { use_, limit: 0 };
        let wr_box = Box::new(PreparedWr { wr, sge, how, flags, address, data });
        let wr_box = NonNull::from(Box::leak(wr_box));
        let mut prepared = Prepared { wr_box, _marks: PhantomData };
        // SAFETY: only this value has the box.
        unsafe { (*wr_box.as_ptr()).wr.sg_list = &raw mut (*wr_box.as_ptr()).sge };
        // INVARIANT: `next` is null because it was zeroed. This writes the rest.
        prepared.set(op, address, use_, flags);
        prepared
    }

    /// Writes `op`, `address` and `flags`.
    #[inline(always)]
    fn set(&mut self, op: O, address: A, use_: Use, flags: u32) {
        // SAFETY: this value owns it (invariant), and it is borrowed mutably.
        unsafe {
            let wr_box = self.wr_box.as_ptr();
            // A WRITE or a READ whose address does not have a length is not limited.
            let limit = if O::USE == use_ { op.limit() } else { u32::MAX };
            (*wr_box).how = How { use_, limit };
            (*wr_box).flags = flags;
            (*wr_box).address = address;
            let wr = &raw mut (*wr_box).wr;
            (*wr).send_flags = flags;
            let mut operands = Operands::of(wr);
            op.emit(&mut operands);
            address.write::<O>(&mut operands);
        }
    }
}

/// The bound of posting [`Placeholder`] itself. No entry satisfies it
/// ([R2.10](crate::guide::rules#r2-10)).
#[diagnostic::on_unimplemented(
    message = "a work request of `wr::Placeholder` has no buffer yet: `post_prepared` posts it",
    label = "its buffer is missing",
    note = "`prepare()` the work request once, and give `post_prepared(&mut prepared, buf)` a buffer each time"
)]
pub trait PostsLater {}

/// Exists for its message: no entry satisfies the bound.
impl<E: Entry + PostsLater> crate::work::data::sealed::Of<E> for Placeholder {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<E: Entry + PostsLater> Data<E> for Placeholder {
    type Sges = [ibv_sge; 1];

    unsafe fn emit(self, _: *mut ibv_sge, _: How, _: &mut Check) -> Emitted<E> {
        unreachable!("no entry has the bound")
    }
}

impl<O: Opcode, A: Address, F, G> WorkRequest<O, Placeholder, A, F, G> {
    /// Fills the work request, for [`post_prepared`](crate::QueuePair::post_prepared) with one
    /// buffer at a time. See the example of [`Prepared`]. This allocates.
    pub fn prepare(self) -> Prepared<O, Placeholder, A, F, G>
    where
        Self: Allows<call::Prepare>,
    {
        Prepared::fill(self, 1)
    }
}

impl<O: Opcode, A: Address, F, G> Prepared<O, Placeholder, A, F, G> {
    /// Fills it again for later posts, with another immediate, remote slice, operands or
    /// destination.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteWrite>(512)?;
    /// let to = |offset| region.remote().slice(offset, 256).map(|slice| slice.write());
    /// let mut write = wr::RdmaWrite::new(wr::Placeholder, to(0)?).prepare();
    /// a.post_prepared(&mut write, pool.take().ok_or("no buffer")?)?;
    /// write.refill(wr::RdmaWrite::new(wr::Placeholder, to(256)?));
    /// a.post_prepared(&mut write, pool.take().ok_or("no buffer")?)?;
    /// # proverbs::loopback::poll(&mut cq, 2)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn refill(&mut self, wr: WorkRequest<O, Placeholder, A, F, G>) {
        self.set(wr.op, wr.address, wr.use_, wr.flags);
    }
}

impl<O: Opcode, A: Address, F, G, const N: usize> WorkRequest<O, Inline<'_, N>, A, F, G> {
    /// Fills the work request with a copy of its inline bytes, for
    /// [`post_prepared_inline`](crate::QueuePair::post_prepared_inline). This allocates.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let mut beat = wr::Send::inline(b"beat 0").prepare();
    /// for count in b'1'..=b'3' {
    ///     b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    ///     beat.bytes_mut()[5] = count; // copied during the post
    ///     a.post_prepared_inline(&mut beat)?;
    /// }
    /// proverbs::loopback::poll(&mut cq, 6)?;
    /// assert_eq!(beat.bytes(), b"beat 3");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare(self) -> Prepared<O, [u8; N], A, F, G>
    where
        Self: Allows<call::Prepare>,
    {
        let wr = self.with_data(|data| *data.0).flagged(SendFlags::INLINE.bits());
        let prepared = Prepared::fill(wr, (N != 0) as u32);
        let wr_box = prepared.wr_box.as_ptr();
        // SAFETY: this value owns it (invariant). The bytes do not move while it exists.
        unsafe {
            let addr = (&raw mut (*wr_box).data).expose_provenance() as u64;
            (*wr_box).sge = ibv_sge { addr, length: N as u32, lkey: 0 };
        }
        prepared
    }
}

impl<O, A, F, G, const N: usize> Prepared<O, [u8; N], A, F, G> {
    /// The inline bytes.
    pub fn bytes(&self) -> &[u8; N] {
        // SAFETY: this value owns them (invariant), and the borrow is the same.
        unsafe { &(*self.wr_box.as_ptr()).data }
    }

    /// The inline bytes of later posts. Earlier posts have copied theirs.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8; N] {
        // SAFETY: this value owns them (invariant), and the borrow is the same.
        unsafe { &mut (*self.wr_box.as_ptr()).data }
    }
}

impl_debug!([O: Opcode, X, A, F, G] Prepared<O, X, A, F, G>, |_| "Prepared({:?})", O::COMPLETES_AS);

/// One post of a prepared work request.
pub(crate) struct Ready<'p, O, X, A, D> {
    wr_box: NonNull<PreparedWr<X, A>>,
    data: D,
    _prepared: PhantomData<(&'p mut (), O)>,
}

/// One post and its slot, which has one element and is borrowed mutably.
type InPlace<'p, O, X, A, D> = (Ready<'p, O, X, A, D>, *mut SendSlot<[ibv_sge; 1]>);

impl<O, X, A, F, G> Prepared<O, X, A, F, G> {
    /// A post of it with `data`, and its slot. `more` are flags in addition to its own. Without
    /// `more`, the flags do not change.
    #[inline(always)]
    pub(crate) fn with<D>(&mut self, data: D, more: Option<u32>) -> InPlace<'_, O, X, A, D> {
        let wr_box = self.wr_box.as_ptr();
        if let Some(more) = more {
            // SAFETY: this value owns it (invariant).
            unsafe { (*wr_box).wr.send_flags = (*wr_box).flags | more };
        }
        (Ready { wr_box: self.wr_box, data, _prepared: PhantomData }, wr_box.cast())
    }
}

impl<E: Entry, O: Opcode, A: Address, D: Data<E>> Work<E> for Ready<'_, O, Placeholder, A, D> {
    type Wr = ibv_send_wr;
    type Data = D;
    const IS_FILLED: bool = true;

    #[inline(always)]
    unsafe fn emit(self, slot: *mut SendSlot<D::Sges>, check: &mut Check) -> Pending<E, D> {
        let wr_box = self.wr_box.as_ptr();
        // SAFETY: the slot is the prepared work request, which is borrowed mutably, and the check
        // has the address handles.
        unsafe {
            // (A READ from an address without a length reads as many bytes as the buffer's length,
            // like a send. Otherwise the use is known here.)
            let How { use_, limit } = (*wr_box).how;
            let is_sized = O::USE != Use::Read || use_ == Use::Read;
            let how = How { use_: if is_sized { O::USE } else { Use::Send }, limit };
            let emitted: Emitted<E> = self.data.emit(&raw mut (*wr_box).sge, how, check);
            let wr = slot.cast::<ibv_send_wr>();
            (*wr).sg_list = emitted.sges;
            if E::OWNED {
                (*wr_box).address.check(check);
            }
            Pending::new(emitted.entry, emitted.wr_id)
        }
    }

    unsafe fn restore(wr: *mut ibv_send_wr) {
        // SAFETY: it is the prepared work request, borrowed mutably.
        unsafe { (*wr).num_sge = 1 };
    }
}

impl<E: Owned, O: Opcode, A: Address, const N: usize> Work<E> for Ready<'_, O, [u8; N], A, ()> {
    type Wr = ibv_send_wr;
    type Data = Inline<'static, N>;
    const IS_FILLED: bool = true;

    #[inline(always)]
    unsafe fn emit(
        self,
        _: *mut SendSlot<[ibv_sge; 1]>,
        check: &mut Check,
    ) -> Pending<E, Inline<'static, N>> {
        let wr_box = self.wr_box.as_ptr();
        // SAFETY: the prepared work request is borrowed mutably, and the check has the address
        // handles.
        unsafe {
            if (How { use_: O::USE, ..(*wr_box).how }).is_beyond(N) {
                check.note(fault::BEYOND);
            }
            (*wr_box).address.check(check);
        }
        Pending::new(None, 0)
    }
}

/// The opcodes whose work requests can be posted more than once. SEND_WITH_INV is not among them,
/// because a key is invalidated only once ([R19.1](crate::guide::rules#r19-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be prepared",
    label = "it is posted once",
    note = "SEND_WITH_INV invalidates a key, which must happen only once: post it with `post_send` (R1.6, R19.1)"
)]
pub trait Repeats: Opcode {}

impl Repeats for opcode::Send {}
impl Repeats for SendWithImm {}
impl Repeats for RdmaWrite {}
impl Repeats for RdmaWriteWithImm {}
impl Repeats for RdmaRead {}
impl Repeats for CmpAndSwp {}
impl Repeats for FetchAndAdd {}

allows! { [O: Repeats, D, A, F, G] WorkRequest<O, D, A, F, G>: Prepare; }

/// The data that each post of a prepared work request takes: one buffer.
///
/// The buffer moves to the device at each post ([R11.1](crate::guide::rules#r11-1)).
#[diagnostic::on_unimplemented(
    message = "a prepared work request takes one buffer, and `{Self}` is not one buffer",
    label = "not one `Buf`, `SharedBuf` or `OpenBuf`",
    note = "post several buffers with `post_send`; inline bytes are prepared with the work request (`post_prepared_inline`)"
)]
pub trait OneBuffer {}

impl<C: 'static> OneBuffer for Buf<C> {}
impl OneBuffer for SharedBuf {}
impl OneBuffer for OpenBuf {}
impl OneBuffer for ReadOnlyBuf {}

allows! { [P: Same<This = Placeholder>, D: OneBuffer] P: Fill<D>; }
