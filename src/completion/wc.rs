//! A work completion: the readable fields of its `ibv_wc`, and its entry.

#![allow(unsafe_code)] // reads C structs, and turns wr_ids back into entries

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::cold::cold_path;
use crate::completion::inbox::{Inbox, note_dropped};
use crate::completion::queue::OneThread;
use crate::completion::status::error_of;
use crate::completion::{
    DetachedCompletion, Direction, Failed, Outcome, Received, Sent, UdReceived, WcError,
};
use crate::counters::queue_counters::CompletionCounter;
use crate::memory::header::{Header, word};
use crate::memory::{Entry, Owned};
use crate::sys::types::{ibv_wc, ibv_wc_flags, ibv_wc_opcode, ibv_wc_status};
use crate::terms::bounded::Qpn;
use crate::work::wc_opcode::WcOpcode;

/// One completion (`struct ibv_wc` of ibv_poll_cq(3)). It borrows its completion queue, cannot be
/// copied, and is consumed once.
///
/// Taking its entry also frees the place of the work request in its queue. Dropping a completion
/// returns its entry to the pool. Dropping a completion of a selectively signaled send queue
/// releases the same entries as [`complete`](crate::QueuePair::complete), as soon as its queue pair
/// needs room. After `mem::forget` of a completion, its work request stays outstanding until the
/// queue pair is reset or destroyed, and a drain times out.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::{Direction, WcOpcode};
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } = proverbs::loopback::pair()?;
/// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(wr::SendWithImm::inline(b"hi", 7))?;
/// let mut seen = Vec::new();
/// while seen.len() < 2 {
///     for completion in cq.poll()? {
///         completion.status()?; // or why it failed
///         assert!(!completion.is_selective());
///         if completion.direction() == Direction::Receive {
///             assert_eq!((completion.qp_num(), completion.imm_data()), (b.qp_num(), Some(7)));
///         }
///         seen.push(completion.opcode());
///         let _buf: Option<Buf> = completion.into_entry();
///     }
/// }
/// assert!(seen.contains(&Some(WcOpcode::Send)) && seen.contains(&Some(WcOpcode::Recv)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_wc_flags", "ibv_wc", "wr_id", "opcode", "imm_data", "invalidated_rkey"))]
#[doc(alias = "wc_flags")]
pub struct Completion<'cq, E: Entry> {
    // - If `E` is owned and the wr_id does not belong to a ring, this completion owns the entry in
    //   the wr_id.
    // - `wc` is in the inbox of the completion queue that `'cq` borrows.
    pub(crate) wc: Promised<'cq>,
    /// The wr_id, read once. It is the word of the entry, unless `word::is_none`.
    pub(super) word: usize,
    _entry: PhantomData<(E, OneThread)>,
}

impl<'cq, E: Owned> Completion<'cq, E> {
    /// Sorts the completion by kind, and takes its entry.
    #[inline(always)]
    pub fn outcome(self) -> Outcome<'cq, E> {
        let (wc, word, mut id) = (self.wc, self.word, 0);
        // A ring's wr_id has no buffer, so completions with a buffer skip that test. (The compiler
        // would merge the two tests for all completions, and test those with a buffer again: 4
        // instructions.)
        if word::is_none(word) {
            cold_path();
            if self.is_ring() {
                return Outcome::Selective(self);
            }
            id = word::id(word);
        }
        let direction = self.direction();
        let entry = self.into_entry();
        let qp_num = wc.qp_num();
        let Some(success) = wc.success() else {
            let error = error_of(wc);
            return Outcome::Failed(Failed { entry, id, direction, qp_num, error });
        };
        if direction == Direction::Send {
            // A provider may report an opcode that this crate does not know.
            let opcode = WcOpcode::from_c(success.opcode()).unwrap_or(WcOpcode::Send);
            return Outcome::Sent(Sent { entry, id, opcode, qp_num });
        }
        // SAFETY: the receive succeeded.
        let arrival: Promised<'_, Arrival> = unsafe { success.says() };
        let is_write = success.opcode() == ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM;
        let opcode = if is_write { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv };
        let (byte_len, imm_data) = (arrival.byte_len(), arrival.imm_data());
        if let Some(entry) = &entry {
            // SAFETY: the entry was just taken, and no other code has used it.
            unsafe { entry.received(if opcode == WcOpcode::Recv { byte_len } else { 0 }) };
        }
        if word & word::DATAGRAM != 0 {
            // SAFETY: the tag shows that the receive was posted to a UD queue pair.
            let datagram: Promised<'_, Datagram> = unsafe { arrival.says() };
            Outcome::Datagram(UdReceived {
                entry,
                byte_len,
                imm_data,
                qp_num,
                src_qp: Qpn::new(datagram.src_qp() & Qpn::MAX.get()).unwrap_or(Qpn::MAX),
                grh: arrival.wc_flags() & ibv_wc_flags::IBV_WC_GRH.0 != 0,
                sl: datagram.sl(),
                slid: datagram.slid(),
            })
        } else {
            Outcome::Received(Received { entry, byte_len, imm_data, opcode, qp_num })
        }
    }

    /// Takes the entry, regardless of the status; `None` if the work request had no buffer, or was
    /// posted to a selectively signaled send queue.
    #[inline(always)]
    pub fn into_entry(self) -> Option<E> {
        ManuallyDrop::new(self).take_entry()
    }

    /// The queue that the work request was posted to.
    #[inline]
    pub fn direction(&self) -> Direction {
        if self.is_receive() { Direction::Receive } else { Direction::Send }
    }

    /// Whether this completion belongs to a selectively signaled send queue, whose entries
    /// [`complete`](crate::QueuePair::complete) releases.
    #[inline]
    pub fn is_selective(&self) -> bool {
        self.is_ring()
    }

    /// Detaches a completion of a selectively signaled send queue from its completion queue, so
    /// that another thread can [`redeem`](crate::QueuePair::redeem) it. [`DetachedCompletion`] has
    /// an example. Detaching takes a lock, so prefer [`complete`](crate::QueuePair::complete) if
    /// this thread owns the queue pair.
    ///
    /// # Errors
    /// The completion, if it does not belong to a [selectively signaled](Self::is_selective) queue,
    /// or if its queue pair is gone.
    pub fn detach(self) -> Result<DetachedCompletion, Self> {
        // SAFETY: the completion was polled into an inbox that lives as long as its completion
        // queue is borrowed.
        let inbox = unsafe { Inbox::of(self.wc.at) };
        // (No other wr_id has the lower half of one of a ring: `word::of_ring`.)
        let Some(name) = inbox.name_in_ring(self.wr_id()) else { return Err(self) };
        // The detached completion takes its place.
        let this = ManuallyDrop::new(self);
        Ok(DetachedCompletion::new(name, this.status(), this.qp_num()))
    }

    /// The number of bytes that arrived, if this is a receive that succeeded
    /// ([R10.5](crate::guide::rules#r10-5)). [`outcome`](Self::outcome) sets the entry's length to
    /// this value. With [`WcOpcode::RecvRdmaWithImm`] the bytes are not in the entry
    /// ([R1.5](crate::guide::rules#r1-5)).
    ///
    /// A loop that uses only this value and the entry decodes no other fields:
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// a.post_send(wr::Send::inline(b"hello"))?;
    /// let mut arrived = 0;
    /// while arrived == 0 {
    ///     for completion in cq.poll()? {
    ///         completion.status()?;
    ///         let Some(len) = completion.byte_len() else { continue };
    ///         let Some(mut buf) = completion.into_entry() else { continue };
    ///         buf.set_len(len as usize);
    ///         assert_eq!(&buf[..], b"hello");
    ///         arrived += 1;
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn byte_len(&self) -> Option<u32> {
        Some(self.arrival()?.byte_len())
    }

    /// The id that was assigned to a work request without a buffer
    /// ([`with_id`](crate::wr::WorkRequest::with_id)), regardless of the status. It takes the place
    /// of C's `wr_id`, of which 16 bits are available to the program. It is 0 if no id was
    /// assigned. It is also 0 for a selectively signaled send queue; use
    /// [`Released::id`](crate::qp::Released::id) there.
    #[inline(always)]
    pub fn id(&self) -> u16 {
        let has_id = word::is_none(self.word) && !self.is_ring();
        if has_id { word::id(self.word) } else { 0 }
    }

    /// Takes the entry, once. It is no longer in flight, and its room is free again.
    #[inline(always)]
    fn take_entry(&self) -> Option<E> {
        // SAFETY: `word` is the wr_id of `wc` (invariants), and callers take the entry once, so it
        // has not been counted.
        unsafe { count(self.wc, self.word) };
        if word::is_none(self.word) {
            return None;
        }
        // SAFETY: this completion owns the entry in the wr_id (invariant), and callers take it
        // once.
        let mut entry = unsafe { E::from_word(self.word) };
        // SAFETY: this is the completion of its work request.
        unsafe { entry.completed(|| self.wc.success().is_some()) };
        Some(entry)
    }
}

impl<'cq, E: Entry> Completion<'cq, E> {
    /// # Safety
    /// `wc` was polled from a queue with entries of type `E`, into an inbox that lives as long as
    /// `'cq`, and is returned to the program once.
    #[inline(always)]
    pub(crate) unsafe fn new(wc: *const ibv_wc) -> Self {
        // INVARIANT: the provider wrote `wc`, which does not change for `'cq`. The completion is
        // returned once, so it owns the entry in the wr_id.
        let wc = Promised { at: wc, _borrowed: PhantomData };
        Completion { wc, word: wc.wr_id() as usize, _entry: PhantomData }
    }

    /// Success, or the reason for the failure ([R10.1](crate::guide::rules#r10-1)).
    ///
    /// # Errors
    /// [`WcError`] with the status of ibv_poll_cq(3).
    #[inline]
    pub fn status(&self) -> Result<(), WcError> {
        match self.wc.success() {
            Some(_) => Ok(()),
            // Inlined, not by `error_of`: a caller that does not read the error pays nothing.
            None => Err(WcError::of(self.wc)),
        }
    }

    /// The number of the queue pair.
    #[inline]
    pub fn qp_num(&self) -> u32 {
        self.wc.qp_num()
    }

    /// The fields of a successful receive.
    #[inline(always)]
    pub(crate) fn arrival(&self) -> Option<Promised<'cq, Arrival>> {
        let success = self.wc.success()?;
        // A wr_id that the program chose does not identify the queue.
        let says_receive = success.opcode() & ibv_wc_opcode::IBV_WC_RECV != 0;
        let is_receive = if E::OWNED { self.is_receive() } else { says_receive };
        // SAFETY: it is a receive that succeeded.
        is_receive.then(|| unsafe { success.says() })
    }

    /// `src_qp` and `slid`, if this is a receive that succeeded.
    ///
    /// # Safety
    /// It belongs to a queue pair whose arrivals have a source.
    #[inline(always)]
    pub(crate) unsafe fn source(&self) -> Option<(u32, u16)> {
        let arrival = self.arrival()?;
        // SAFETY: the receive succeeded (`arrival`), on a queue pair whose arrivals have a source
        // (this function's contract). So the provider wrote `src_qp` and `slid`.
        let source: Promised<'_, Datagram> = unsafe { arrival.says() };
        Some((source.src_qp(), source.slid()))
    }

    #[inline(always)]
    fn is_receive(&self) -> bool {
        self.word & word::RECEIVE != 0
    }

    #[inline(always)]
    pub(super) fn is_ring(&self) -> bool {
        self.word & word::RING != 0
    }

    #[inline(always)]
    pub(crate) fn wr_id(&self) -> u64 {
        self.word as u64
    }
}

/// Counts a completion: its room is free again, and its entry is no longer in flight.
///
/// # Safety
/// `wr_id` is the wr_id of `wc`, a completion that is held and has not been counted.
#[inline(always)]
unsafe fn count(wc: Promised<'_>, wr_id: usize) {
    if word::is_none(wr_id) {
        if wr_id & word::RING == 0 {
            // SAFETY: the address points to the queue's counter. The completion queue keeps the
            // counters of its queues while completions can arrive or are held, and `wc` is held.
            unsafe { CompletionCounter::count(word::counter(wr_id)) };
        } else {
            note_dropped(wc.at, wr_id as u64);
        }
        return;
    }
    let header = word::address::<Header>(wr_id);
    // SAFETY: the device returned a wr_id that a queue of this completion queue posted. It owns the
    // handle, so the header is alive.
    let header = unsafe { &*header };
    // SAFETY: the counter was stored when the handle was posted. The completion queue keeps the
    // queue's counters while `wc` is held.
    unsafe { CompletionCounter::count(header.take()) };
}

/// Counts a completion, and drops its entry.
///
/// # Safety
/// As for `count`, and ownership of the entry in the wr_id passes to this function.
#[inline(never)]
unsafe fn drop_entry<E: Entry>(wc: Promised<'_>, wr_id: usize) {
    // SAFETY: `wc` is held, `wr_id` is its wr_id, and it was not counted (this function's
    // contract). This function owns the entry in the wr_id. It is created and dropped here, once.
    unsafe {
        count(wc, wr_id);
        drop(E::from_word(wr_id));
    }
}

impl<E: Entry> Drop for Completion<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        // By value, so that the holder of a completion need not be in memory.
        let (wc, word) = (self.wc, self.word);
        if !E::OWNED {
            return;
        }
        // SAFETY: `word` is the wr_id of `wc`, and this completion owns its entry, if there is one
        // (invariants). It was not taken before.
        unsafe {
            match word::is_none(word) {
                true => count(wc, word),
                false => drop_entry::<E>(wc, word),
            }
        }
    }
}

/// The fields of an `ibv_wc`, each readable only if ibv_poll_cq(3) promises it. Every completion
/// has wr_id, status, qp_num and vendor_err.
///
/// A provider need not write the other fields. They contain values of an earlier completion, or are
/// uninitialised. So fields are read one by one through a pointer, because a reference would claim
/// that all of them are initialised.
///
/// # Invariants
/// A provider's poll wrote `at`, and nothing writes to it for `'cq`. The completion is of the kind
/// that the type names.
#[derive(Clone, Copy)]
pub(crate) struct Promised<'cq, Of = Any> {
    pub(crate) at: *const ibv_wc,
    _borrowed: PhantomData<(&'cq ibv_wc, Of)>,
}

/// Any completion.
#[derive(Clone, Copy)]
pub(crate) enum Any {}
/// A completion that succeeded: its opcode is promised too.
#[derive(Clone, Copy)]
pub(crate) enum Success {}
/// A receive that succeeded: its byte_len and wc_flags are promised too, and with IBV_WC_WITH_IMM
/// its imm_data.
#[derive(Clone, Copy)]
pub(crate) enum Arrival {}
/// A receive of a UD queue pair that succeeded: its source is promised too.
#[derive(Clone, Copy)]
enum Datagram {}

// SAFETY: it points to memory that is read and, for `'cq`, not written, like a `&'cq ibv_wc`.
// (`Completion` keeps a completion on its thread.)
unsafe impl<Of> Send for Promised<'_, Of> {}
// SAFETY: it only reads, and nothing writes to the memory for `'cq`.
unsafe impl<Of> Sync for Promised<'_, Of> {}

macro_rules! promised {
    ($of:ident: $($field:ident $type:ty),*) => {
        impl Promised<'_, $of> {
            $(
                #[inline(always)]
                pub(crate) fn $field(self) -> $type {
                    // SAFETY: the field is promised for every completion of the kind that the type
                    // names.
                    unsafe { (*self.at).$field }
                }
            )*
        }
    };
}

promised!(Any: wr_id u64, status ibv_wc_status::Type, qp_num u32, vendor_err u32);
promised!(Success: opcode ibv_wc_opcode::Type);
promised!(Arrival: byte_len u32, wc_flags u32);
promised!(Datagram: src_qp u32, sl u8, slid u16);

impl<'cq, Of> Promised<'cq, Of> {
    /// # Safety
    /// The completion is of the kind `More`.
    #[inline(always)]
    pub(super) unsafe fn says<More>(self) -> Promised<'cq, More> {
        Promised { at: self.at, _borrowed: PhantomData }
    }
}

impl<'cq> Promised<'cq> {
    #[inline(always)]
    pub(crate) fn success(self) -> Option<Promised<'cq, Success>> {
        let is_success = self.status() == ibv_wc_status::IBV_WC_SUCCESS;
        // SAFETY: its status is success.
        is_success.then(|| unsafe { self.says() })
    }
}

impl Promised<'_, Arrival> {
    /// The union of `imm_data` and `invalidated_rkey`, if `flag` marks it as present.
    #[inline(always)]
    pub(crate) fn word(self, flag: ibv_wc_flags) -> Option<u32> {
        if self.wc_flags() & flag.0 == 0 {
            return None;
        }
        // SAFETY: the flag promises the union, which is one u32. No reference to the rest is made.
        let word = unsafe {
            let union = &raw const (*self.at).imm_data_invalidated_rkey_union;
            union.cast::<u32>().read()
        };
        Some(word)
    }

    /// The immediate data, in host byte order.
    #[inline(always)]
    pub(super) fn imm_data(self) -> Option<u32> {
        self.word(ibv_wc_flags::IBV_WC_WITH_IMM).map(u32::from_be)
    }
}
