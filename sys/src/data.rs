//! The data path: the parts of C's work requests, and the inlines of verbs.h, instruction for
//! instruction.
//!
//! rdma-sys unwraps each function pointer, which costs a test and a panic path that C does not
//! have. libibverbs fills every entry of `ops` (if need be with functions that return
//! `EOPNOTSUPP`), and so does the loopback device. So the pointers are never null.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use super::types::*;
use crate::counters::tally::{READ, SENT};

/// The common beginning of both kinds of work requests (`sys::layout` checks it).
#[repr(C)]
pub struct Head<W> {
    pub wr_id: u64,
    pub next: *mut W,
}

/// `ibv_send_wr` or `ibv_recv_wr`.
///
/// # Safety
/// The type begins with a `Head` of itself.
#[doc(hidden)]
pub unsafe trait Link: Sized {
    /// The common part of all work requests.
    #[inline(always)]
    fn head(wr: *mut Self) -> *mut Head<Self> {
        wr.cast()
    }
}

// SAFETY: `layout` compares the offsets.
unsafe impl Link for ibv_send_wr {}
// SAFETY: `layout` compares the offsets.
unsafe impl Link for ibv_recv_wr {}

/// The arm `A` of the union behind `wr`. All arms begin where the union does.
///
/// # Safety
/// `wr` is writable.
#[inline(always)]
pub unsafe fn arm<A>(wr: *mut ibv_send_wr) -> *mut A {
    // SAFETY: `wr` points to a work request, and no reference to it is made.
    unsafe { &raw mut (*wr).wr }.cast()
}

/// The place of a destination in an RDMA work request, if it has one. It is in a union that only
/// BIND_MW reads, since its own union holds the remote address. `ibv_post_send` has no such work
/// requests.
///
/// # Safety
/// `wr` is writable.
#[inline(always)]
pub unsafe fn apart(wr: *mut ibv_send_wr) -> *mut ud_t {
    // Not at its beginning, which has padding that copies of a work request leave out.
    const { assert!(size_of::<ud_t>() <= size_of::<raw::ibv_mw_bind_info>()) };
    // SAFETY: `wr` points to a work request, and no reference to it is made.
    unsafe {
        let bind = (&raw mut (*wr).bind_mw_tso_union).cast::<raw::bind_mw_t>();
        (&raw mut (*bind).bind_info).cast()
    }
}

/// Writes the word that a work request carries besides its data: an immediate, or the key to
/// invalidate (R1.4).
///
/// # Safety
/// `wr` is writable.
#[inline(always)]
pub unsafe fn emit_word(wr: *mut ibv_send_wr, word: u32) {
    // SAFETY: `wr` is writable, and the union is one u32; no reference to the rest is made.
    unsafe { (&raw mut (*wr).imm_data_invalidated_rkey_union).cast::<u32>().write(word) };
}

/// The operands, besides its data, of a send work request under construction.
pub struct Operands<'wr> {
    wr: *mut ibv_send_wr,
    _wr: PhantomData<&'wr mut ibv_send_wr>,
}

/// C's arm `atomic_t`. FETCH_AND_ADD leaves `swap` unchanged.
#[repr(C)]
pub struct AtomicArm {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: MaybeUninit<u64>,
    pub rkey: u32,
}

impl Operands<'_> {
    /// # Safety
    /// `wr` is writable, and is not used otherwise while its operands are written.
    #[inline(always)]
    pub unsafe fn of(wr: *mut ibv_send_wr) -> Self {
        Operands { wr, _wr: PhantomData }
    }

    /// The address of a WRITE or a READ, and the word after it.
    #[inline(always)]
    pub fn rdma(&mut self, operands: [u64; 2]) {
        self.put(operands);
    }

    /// The operands of an atomic.
    #[inline(always)]
    pub fn atomic(&mut self, operands: AtomicArm) {
        self.put(operands);
    }

    /// The destination of a SEND.
    #[inline(always)]
    pub fn ud(&mut self, to: ud_t) {
        self.put(to);
    }

    /// The operands of a FLUSH.
    #[inline(always)]
    pub fn flush(&mut self, operands: super::persist::flush_t) {
        self.put(operands);
    }

    /// The operands of a transport or an opcode. All arms begin where the union does.
    #[inline(always)]
    fn put<A>(&mut self, operands: A) {
        const { assert!(size_of::<A>() <= size_of::<raw::atomic_t>()) };
        const { assert!(align_of::<A>() <= align_of::<raw::atomic_t>()) };
        // SAFETY: the work request is writable (`of`), and its union has room for the arm.
        unsafe { arm::<A>(self.wr).write(operands) };
    }

    /// The destination of an RDMA work request, whose arm has the remote address.
    #[inline(always)]
    pub fn apart(&mut self, to: ud_t) {
        // SAFETY: the work request is writable (`of`).
        unsafe { apart(self.wr).write(to) };
    }

    /// The word that a work request carries besides its data: an immediate, or the key to
    /// invalidate (R1.4).
    #[inline(always)]
    pub fn word(&mut self, word: u32) {
        // SAFETY: the work request is writable (`of`).
        unsafe { emit_word(self.wr, word) };
    }

    /// The operands of BIND_MW.
    #[inline(always)]
    pub fn bind(&mut self, bind: raw::bind_mw_t) {
        // SAFETY: the work request is writable (`of`).
        unsafe { super::window::emit_bind(self.wr, bind) };
    }

    /// The number of the shared receive queue at the peer (XRC).
    #[inline(always)]
    pub fn remote_srqn(&mut self, number: u32) {
        // SAFETY: the work request is writable (`of`); no reference to the rest is made.
        unsafe { (&raw mut (*self.wr).qp_type.xrc.remote_srqn).write(number) };
    }
}

/// An rkey, and a number in the padding that follows it in C, as they are in memory after
/// `remote_addr`.
#[inline(always)]
pub fn rkey_and(rkey: u32, behind: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (rkey.to_ne_bytes(), behind.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The rkey in the arm of a WRITE or a READ.
#[inline]
pub fn rkey_of(arm: [u64; 2]) -> u32 {
    let [a, b, c, d, ..] = arm[1].to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// The number after the rkey.
#[inline(always)]
pub fn behind_rkey(arm: [u64; 2]) -> u32 {
    let [.., a, b, c, d] = arm[1].to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// The number of bytes of a list, as indexed by `SENT` and `READ`.
///
/// # Safety
/// `wr` is the first of a list of complete work requests that ends with null.
pub unsafe fn bytes_of(mut wr: *mut ibv_send_wr) -> [u64; 2] {
    use ibv_wr_opcode::*;
    let mut bytes = [0; 2];
    while !wr.is_null() {
        // SAFETY: the work request has `num_sge` elements at `sg_list` (this function's contract).
        unsafe {
            let kind = match (*wr).opcode {
                IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => READ,
                _ => SENT,
            };
            for i in 0..(*wr).num_sge as usize {
                bytes[kind] += u64::from((*(*wr).sg_list.add(i)).length);
            }
            wr = (*wr).next;
        }
    }
    bytes
}

/// Whether an SRD opcode names memory of the peer.
#[inline]
pub fn is_rdma(opcode: ibv_wr_opcode::Type) -> bool {
    use ibv_wr_opcode::*;
    matches!(opcode, IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM | IBV_WR_RDMA_READ)
}

/// A verb that posts work requests.
///
/// # Safety
/// `post` and `post_known` do what the C verb does. If they report success, the device owns the
/// work requests. If they report a `bad` one, it does not own that one and those after it.
#[doc(hidden)]
pub unsafe trait Verb {
    /// The object that it posts to.
    type Object;
    type Wr: Link;
    const NAME: &'static str;
    /// A copy of a work request that was just emitted, for posting from the copy.
    type Known;
    /// Whether `Known` has any content.
    const KNOWS: bool = false;

    /// # Safety
    /// `wr` is emitted.
    unsafe fn known(wr: *const Self::Wr) -> Self::Known;

    /// Writes the work request again.
    ///
    /// # Safety
    /// `wr` is writable.
    unsafe fn show(_known: &Self::Known, _wr: *mut Self::Wr) {}

    /// Adds flags to the copy.
    ///
    /// # Safety
    /// `known` was made from a work request that was emitted.
    unsafe fn flag(_known: &mut Self::Known, _flags: u32) {}

    /// Builds a work request in the open session. (Not a closure of [`Each::each`], which would not
    /// be inlined if it is called often.)
    ///
    /// # Safety
    /// `object` is live, and has an open session; `known` was made from a work request that it may
    /// have.
    unsafe fn build(_object: *mut Self::Object, _known: &Self::Known) {}

    /// Posts a list of known work requests, all or none. `None` leaves that to `post`.
    ///
    /// # Safety
    /// As for `post`; `known` was made from such a list.
    #[inline(always)]
    unsafe fn post_known(
        _object: *mut Self::Object,
        _known: &impl Each<Self::Known>,
    ) -> Option<c_int> {
        None
    }

    /// # Safety
    /// `object` is live, `first` is null or a list that may be posted to it, and `bad` is writable.
    unsafe fn post(
        object: *mut Self::Object,
        first: *mut Self::Wr,
        bad: *mut *mut Self::Wr,
    ) -> c_int;
}

/// A list that the compiler unrolls, of known work requests: `(first, (second, ()))`.
#[doc(hidden)]
pub trait Each<K> {
    const IS_EMPTY: bool = false;
    /// Space to write the list.
    type Room<W>;

    /// Builds each in turn.
    ///
    /// # Safety
    /// As for [`Verb::build`], for each element.
    unsafe fn each<V: Verb<Known = K>>(&self, object: *mut V::Object);

    /// Adds flags to the last.
    ///
    /// # Safety
    /// As for [`Verb::flag`].
    unsafe fn flag_last<V: Verb<Known = K>>(&mut self, flags: u32);

    /// Writes the list again, linked and terminated.
    ///
    /// # Safety
    /// `room` is writable.
    unsafe fn show<V: Verb<Known = K>>(&self, room: *mut Self::Room<V::Wr>) -> *mut V::Wr;
}

impl<K> Each<K> for () {
    const IS_EMPTY: bool = true;
    type Room<W> = ();

    #[inline(always)]
    unsafe fn each<V: Verb<Known = K>>(&self, _: *mut V::Object) {}

    #[inline(always)]
    unsafe fn flag_last<V: Verb<Known = K>>(&mut self, _: u32) {}

    #[inline(always)]
    unsafe fn show<V: Verb<Known = K>>(&self, _: *mut ()) -> *mut V::Wr {
        ptr::null_mut()
    }
}

impl<K, R: Each<K>> Each<K> for (K, R) {
    type Room<W> = (MaybeUninit<W>, R::Room<W>);

    #[inline(always)]
    unsafe fn each<V: Verb<Known = K>>(&self, object: *mut V::Object) {
        // SAFETY: the caller guarantees what `build` requires.
        unsafe {
            V::build(object, &self.0);
            self.1.each::<V>(object);
        }
    }

    #[inline(always)]
    unsafe fn flag_last<V: Verb<Known = K>>(&mut self, flags: u32) {
        // SAFETY: the caller guarantees this for each known work request.
        unsafe {
            match R::IS_EMPTY {
                true => V::flag(&mut self.0, flags),
                false => self.1.flag_last::<V>(flags),
            }
        }
    }

    #[inline(always)]
    unsafe fn show<V: Verb<Known = K>>(&self, room: *mut Self::Room<V::Wr>) -> *mut V::Wr {
        // SAFETY: the room is writable, and has a place for each element.
        unsafe {
            let at = (&raw mut (*room).0).cast::<V::Wr>();
            V::show(&self.0, at);
            (*Link::head(at)).next = self.1.show::<V>(&raw mut (*room).1);
            at
        }
    }
}

macro_rules! verb {
    ($name:ident, $op:ident, $c:literal, $object:ty, $wr:ty) => {
        #[doc(hidden)]
        pub enum $name {}

        // SAFETY: calls the operation of the device, as the inline of verbs.h does.
        unsafe impl Verb for $name {
            type Object = $object;
            type Wr = $wr;
            const NAME: &'static str = $c;
            type Known = ();

            #[inline(always)]
            unsafe fn known(_: *const $wr) {}

            #[inline(always)]
            unsafe fn post(object: *mut $object, first: *mut $wr, bad: *mut *mut $wr) -> c_int {
                // SAFETY: a live object points to its live context, whose `ops` was filled when the
                // device was opened, never changes and has no null entry (see the top of this
                // file). The caller upholds the rest of the verb's contract.
                unsafe {
                    let op = (*(*object).context).ops.$op.unwrap_unchecked();
                    op(object, first, bad)
                }
            }
        }
    };
}

verb!(PostSend, post_send, "ibv_post_send", ibv_qp, ibv_send_wr);
verb!(PostRecv, post_recv, "ibv_post_recv", ibv_qp, ibv_recv_wr);
verb!(PostSrqRecv, post_srq_recv, "ibv_post_srq_recv", ibv_srq, ibv_recv_wr);

/// # Safety
/// `cq` is live and `wc` has room for `entries` completions.
#[inline(always)]
pub unsafe fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a live object points to its live context, whose `ops` was filled when the device was
    // opened, never changes and has no null entry (see the top of this file). There is room for
    // `entries` completions, as the verb requires.
    unsafe {
        let op = (*(*cq).context).ops.poll_cq.unwrap_unchecked();
        op(cq, entries, wc)
    }
}

/// # Safety
/// `cq` is live.
#[inline(always)]
pub unsafe fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: a live object points to its live context, whose `ops` was filled when the device was
    // opened, never changes and has no null entry (see the top of this file).
    unsafe {
        let op = (*(*cq).context).ops.req_notify_cq.unwrap_unchecked();
        op(cq, solicited_only)
    }
}
