//! Work completions.

#![allow(unsafe_code)] // turns wr_ids back into entries

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::completion::datagram::UdReceived;
use crate::completion::status::{WcError, WcStatus};
use crate::terms::bounded::Qpn;
use crate::work::wc_opcode::WcOpcode;

use crate::completion::inbox::Inbox;
use crate::completion::promised::{Arrival, Promised};
use crate::counters::books::{Books, Counter};
use crate::counters::word;
use crate::memory::buf::Buf;
use crate::memory::entry::Entry;
use crate::memory::header::Header;
use crate::sys::types::{ibv_wc, ibv_wc_flags};

/// One completion (`struct ibv_wc` of ibv_poll_cq(3)). It borrows its completion queue, cannot be
/// copied, and is consumed once.
///
/// Taking its entry also gives back the room of its work request. A dropped completion sends its
/// entry home to the pool; one of a selectively signaled send queue releases what
/// [`complete`](crate::QueuePair::complete) would have released, as soon as its queue pair looks
/// for room. A forgotten completion (`mem::forget`) leaves its work request outstanding until the
/// queue pair is reset or destroyed, and a drain waits for it in vain.
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
///
/// # Invariants
/// - If `E` is owned and the wr_id is not a ring's, this completion owns the entry in the wr_id.
/// - `wc` is in the inbox of the completion queue that `'cq` borrows.
pub struct Completion<'cq, E: Entry> {
    wc: Promised<'cq>,
    /// The wr_id, read once: the word of the entry, unless `word::is_none`.
    word: usize,
    _entry: PhantomData<(E, OneThread)>,
}

/// Keeps a completion on the thread that polled it: the counters that it moves have one writer.
///
/// The type is neither `Send` nor `Sync`, and has a name for the error message.
pub(crate) type OneThread = dyn UsedByOneThreadAtATime;

/// Appears in the `!Send` diagnostic of [`Completion`].
pub(crate) trait UsedByOneThreadAtATime {}

/// The queue that a work request was on ([`Completion::direction`]): `opcode & IBV_WC_RECV` in C
/// (R10.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The send queue.
    Send,
    /// A receive queue.
    Receive,
}

/// A completion by kind: the result of [`Completion::outcome`] (ibv_poll_cq(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::{Failed, Sent, WcOpcode};
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } = proverbs::loopback::pair()?;
/// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(wr::Send::inline(b"hello"))?;
/// b.to_error()?; // before anything arrived, perhaps
/// let (mut sent, mut received, mut failed) = (0, 0, 0);
/// while sent + failed == 0 || received + failed == 0 {
///     for completion in cq.poll()? {
///         match completion.outcome() {
///             Outcome::Sent(Sent { opcode, .. }) => sent += (opcode == WcOpcode::Send) as u32,
///             Outcome::Received(message) => received += message.entry.is_some() as u32,
///             Outcome::Failed(Failed { entry, direction, error }) => {
///                 println!("{direction:?}: {error}, buffer back: {}", entry.is_some());
///                 failed += 1;
///             }
///             Outcome::Datagram(_) | Outcome::Selective(_) => unreachable!("RC, and every send signaled"),
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum Outcome<'cq, E: Entry> {
    /// A send work request of a queue whose every work request completes is done.
    ///
    /// On RC the peer's device has acknowledged it; on UC and UD it has been handed to the wire
    /// (R10.10).
    Sent(Sent<E>),
    /// A message (or the notice of an RDMA WRITE) has arrived on RC or UC.
    Received(Received<E>),
    /// A message has arrived on UD.
    Datagram(UdReceived<E>),
    /// A work request failed or was flushed. Its buffer is back, with unspecified content (R11.7).
    Failed(Failed<E>),
    /// A completion of a selectively signaled send queue: give it to its queue pair's
    /// [`complete`](crate::QueuePair::complete).
    Selective(Completion<'cq, E>),
}

/// A send that is done: [`Outcome::Sent`] (ibv_poll_cq(3)).
#[derive(Debug)]
pub struct Sent<E> {
    /// The entry; `None` if the work request had no buffer.
    pub entry: Option<E>,
    /// The operation.
    pub opcode: WcOpcode,
    /// The queue pair that did it.
    pub qp_num: u32,
}

/// A work request that failed: [`Outcome::Failed`] (ibv_poll_cq(3)).
#[derive(Debug)]
pub struct Failed<E> {
    /// The entry; `None` if the work request had no buffer.
    pub entry: Option<E>,
    /// The queue it was on, known from the crate's own books: an error completion does not say
    /// (R10.2).
    pub direction: Direction,
    /// The reason.
    pub error: WcError,
}

/// An arrival on RC or UC: [`Outcome::Received`] (ibv_poll_cq(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::Received;
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } = proverbs::loopback::pair()?;
/// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(wr::Send::inline(b"hello"))?;
/// let message: Received<Buf> = loop {
///     if let Some(Outcome::Received(message)) = cq.poll_one()?.map(Completion::outcome) {
///         break message;
///     }
/// };
/// assert_eq!((message.data(), message.byte_len), (&b"hello"[..], 5));
/// assert_eq!(message.segments().collect::<Vec<_>>(), [b"hello"]); // of a `BufList`, one a buffer
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Received<E> {
    /// The entry, its length set to what arrived; `None` if the receive had no buffer.
    pub entry: Option<E>,
    /// The number of bytes that arrived. With [`WcOpcode::RecvRdmaWithImm`] they are in the region
    /// that the peer wrote to, not in the entry (R1.5).
    pub byte_len: u32,
    /// The immediate, in host order.
    pub imm_data: Option<u32>,
    /// [`WcOpcode::Recv`] or [`WcOpcode::RecvRdmaWithImm`].
    pub opcode: WcOpcode,
    /// The queue pair that received it.
    pub qp_num: u32,
}

impl<'cq, E: Entry> Completion<'cq, E> {
    /// # Safety
    /// `wc` is a completion of a queue with entries of type `E`, in an inbox that lives as long as
    /// `'cq`, and is handed out once. `word` is its wr_id.
    #[inline(always)]
    pub(crate) unsafe fn new(wc: *const ibv_wc, word: usize) -> Self {
        // SAFETY: the provider wrote `wc`, which stays as it is for `'cq` (this function's
        // contract).
        let wc = unsafe { Promised::new(wc) };
        // INVARIANT: the completion is handed out once, so the entry in the wr_id is ours.
        Completion { wc, word, _entry: PhantomData }
    }

    /// Success, or the reason of the failure (R10.1).
    ///
    /// # Errors
    /// [`WcError`] with the status of ibv_poll_cq(3).
    #[inline]
    pub fn status(&self) -> Result<(), WcError> {
        match self.wc.success() {
            Some(_) => Ok(()),
            None => Err(WcError {
                status: WcStatus::from_c(self.wc.status()),
                vendor_err: self.wc.vendor_err(),
                qp_num: self.wc.qp_num(),
            }),
        }
    }

    /// The number of the queue pair.
    #[inline]
    pub fn qp_num(&self) -> u32 {
        self.wc.qp_num()
    }

    /// The operation that was done; `None` if it failed.
    #[inline]
    pub fn opcode(&self) -> Option<WcOpcode> {
        self.wc.success().and_then(|success| WcOpcode::from_c(success.opcode()))
    }

    /// The immediate in host order, if this is a receive that brought one (R10.3).
    #[inline]
    pub fn imm_data(&self) -> Option<u32> {
        self.arrival()?.imm_data()
    }

    /// The key that a received message ended, if it ended one
    /// ([`SendWithInv`](crate::wr::SendWithInv), R10.3). Soft-RoCE sets another flag for it, so
    /// there it is `None`.
    #[inline]
    pub fn invalidated_rkey(&self) -> Option<u32> {
        self.arrival()?.word(ibv_wc_flags::IBV_WC_WITH_INV)
    }

    /// The fields of a successful receive.
    #[inline(always)]
    fn arrival(&self) -> Option<Arrival<'cq>> {
        let success = self.wc.success()?;
        // A wr_id that the program chose does not name the queue.
        let is_receive = if E::OWNED { self.is_receive() } else { success.says_receive() };
        // SAFETY: it is a receive, and it succeeded.
        is_receive.then(|| unsafe { success.arrival() })
    }

    #[inline(always)]
    fn is_receive(&self) -> bool {
        !self.is_ring() && self.word & word::RECEIVE != 0
    }

    /// Whether the work request was posted to the queue with these books and its wr_id is its own
    /// handle.
    pub(crate) fn belongs_to(&self, books: *const Books) -> bool {
        let word = self.word;
        if !E::OWNED || self.is_ring() {
            return false;
        }
        let direction = (word & word::RECEIVE != 0) as usize;
        // SAFETY: callers pass the books of a queue that they hold.
        let counter = unsafe { Books::counter(books, direction) };
        if word::is_none(word) {
            word::address::<Counter>(word).cast_const() == counter
        } else {
            // SAFETY: this completion owns the entry in the wr_id, so its header is alive.
            let header = unsafe { &*word::address::<Header>(word) };
            header.counter() == counter
        }
    }

    #[inline(always)]
    fn is_ring(&self) -> bool {
        self.word & word::RING != 0
    }

    #[inline(always)]
    pub(crate) fn wr_id(&self) -> u64 {
        self.word as u64
    }
}

impl<E: crate::memory::entry::Owned> Completion<'_, E> {
    /// The queue that the work request was on.
    #[inline]
    pub fn direction(&self) -> Direction {
        if self.is_receive() { Direction::Receive } else { Direction::Send }
    }

    /// Whether this completion is of a selectively signaled send queue, whose entries
    /// [`complete`](crate::QueuePair::complete) releases.
    #[inline]
    pub fn is_selective(&self) -> bool {
        self.is_ring()
    }
}

impl<'cq, E: crate::memory::entry::Owned> Completion<'cq, E> {
    /// The number of bytes that arrived, if this is a receive that succeeded (R10.5): what
    /// [`outcome`](Self::outcome) would set the entry's length to. With
    /// [`WcOpcode::RecvRdmaWithImm`] they are not in the entry (R1.5).
    ///
    /// A loop that takes only the entry and this decodes nothing else:
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } = proverbs::loopback::pair()?;
    /// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// a.post_send(wr::Send::inline(b"hello"))?;
    /// let mut arrived = 0;
    /// while arrived == 0 {
    ///     for completion in cq.poll()? {
    ///         completion.status()?;
    ///         if let Some(len) = completion.byte_len()
    ///             && let Some(mut buf) = completion.into_entry()
    ///         {
    ///             buf.set_len(len as usize);
    ///             assert_eq!(&buf[..], b"hello");
    ///             arrived += 1;
    ///         }
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn byte_len(&self) -> Option<u32> {
        Some(self.arrival()?.byte_len())
    }

    /// The entry, whatever the status; `None` if the work request had no buffer, or was on a
    /// selectively signaled send queue.
    #[inline(always)]
    pub fn into_entry(self) -> Option<E> {
        ManuallyDrop::new(self).take_entry()
    }

    /// Sorts the completion by kind, and takes its entry.
    ///
    /// All in line, and nothing of it passed by reference: so what the caller does not look at is
    /// not decoded, and the rest is in registers.
    #[inline(always)]
    pub fn outcome(self) -> Outcome<'cq, E> {
        let (wc, word) = (self.wc, self.word);
        if self.is_ring() {
            return Outcome::Selective(self);
        }
        let direction = self.direction();
        let mut entry = self.into_entry();
        let Some(success) = wc.success() else {
            return Outcome::Failed(Failed { entry, direction, error: error_of(wc) });
        };
        let qp_num = wc.qp_num();
        if direction == Direction::Send {
            let opcode = WcOpcode::of_send(success.opcode());
            return Outcome::Sent(Sent { entry, opcode, qp_num });
        }
        // SAFETY: a receive that succeeded.
        let arrival = unsafe { success.arrival() };
        let opcode = WcOpcode::of_receive(success.opcode());
        let (byte_len, imm_data) = (arrival.byte_len(), arrival.imm_data());
        if let Some(entry) = &mut entry {
            entry.received(if opcode == WcOpcode::Recv { byte_len as usize } else { 0 });
        }
        if word & word::DATAGRAM != 0 {
            // SAFETY: the tag says that the receive was of a UD queue pair.
            let datagram = unsafe { arrival.datagram() };
            Outcome::Datagram(UdReceived {
                entry,
                byte_len,
                imm_data,
                qp_num,
                src_qp: Qpn::new(datagram.src_qp() & Qpn::MAX.get()).unwrap_or(Qpn::MAX),
                grh: datagram.has_grh(),
                sl: datagram.sl(),
                slid: datagram.slid(),
            })
        } else {
            Outcome::Received(Received { entry, byte_len, imm_data, opcode, qp_num })
        }
    }
}

impl Completion<'_, crate::memory::entry::Raw> {
    /// The wr_id that the work request was posted with;
    /// [`post_recv_unchecked`](crate::QueuePair::post_recv_unchecked) has an example.
    pub fn raw_wr_id(&self) -> u64 {
        self.word as u64
    }

    /// The number of bytes received or read, for a successful receive, READ or atomic; for others
    /// the device need not say (R10.5).
    pub fn byte_len(&self) -> Option<u32> {
        match self.arrival() {
            Some(arrival) => Some(arrival.byte_len()),
            None => self.wc.success()?.bytes_brought(),
        }
    }
}

impl<E: crate::memory::entry::Owned> Completion<'_, E> {
    /// Takes the entry, once: it is no longer in flight, and its room comes back.
    #[inline(always)]
    fn take_entry(&self) -> Option<E> {
        // SAFETY: `word` is the wr_id of `wc` (invariants), and callers take the entry once, so it
        // has not been booked.
        unsafe { settle(self.wc, self.word) };
        if word::is_none(self.word) {
            return None;
        }
        // SAFETY: the entry in the wr_id is ours (invariant), and callers take it once.
        Some(unsafe { E::from_word(self.word) })
    }
}

/// Why a work request failed: in two registers, because what is passed by reference must be in
/// memory.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
extern "C" fn error_of(wc: Promised<'_>) -> WcError {
    WcError {
        status: WcStatus::from_c(wc.status()),
        vendor_err: wc.vendor_err(),
        qp_num: wc.qp_num(),
    }
}

/// Books a completion: its room comes back, and its entry is no longer in flight.
///
/// # Safety
/// `wr_id` is that of `wc`, a completion that is held and has not been booked.
#[inline(always)]
unsafe fn settle(wc: Promised<'_>, wr_id: usize) {
    if word::is_none(wr_id) {
        if wr_id & word::RING == 0 {
            // SAFETY: the address is that of the queue's counter. The completion queue keeps the
            // books of its queues while completions can come or are held, and `wc` is held.
            unsafe { Counter::count(word::address(wr_id)) };
        } else {
            note_dropped(wc.as_ptr(), wr_id as u64);
        }
        return;
    }
    let header = word::address::<Header>(wr_id);
    // SAFETY: the device gave back a wr_id that a queue of this completion queue posted. It holds
    // the handle, so the header is alive.
    let header = unsafe { &*header };
    // SAFETY: the counter was noted when the handle was posted. The completion queue keeps the
    // queue's books while `wc` is held.
    unsafe { Counter::count(header.take()) };
}

/// Books a completion, and drops its entry.
///
/// # Safety
/// As for `settle`, and the entry in the wr_id is given up.
#[inline(never)]
unsafe fn drop_entry<E: Entry>(wc: Promised<'_>, wr_id: usize) {
    // SAFETY: what is asked of the caller.
    unsafe {
        settle(wc, wr_id);
        drop(E::from_word(wr_id));
    }
}

/// Notes that a completion of a ring was dropped, for its queue pair to find.
///
/// It promises not to unwind. Otherwise a loop over completions would have to keep the iterator's
/// fields in memory for the case.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // not for C
extern "C" fn note_dropped(wc: *const ibv_wc, wr_id: u64) {
    // SAFETY: callers hold a completion, which was polled into an inbox that lives as long as its
    // completion queue is borrowed.
    unsafe { Inbox::of(wc) }.note_dropped(wr_id);
}

impl<E: Entry> Drop for Completion<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        // By value: so what holds a completion need not be in memory.
        let (wc, word) = (self.wc, self.word);
        if !E::OWNED {
            return;
        }
        // SAFETY: `word` is the wr_id of `wc`, and its entry, if there is one, is ours (invariants);
        // it was not taken before.
        unsafe {
            match word::is_none(word) {
                true => settle(wc, word),
                false => drop_entry::<E>(wc, word),
            }
        }
    }
}

impl<E: Entry> fmt::Debug for Completion<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion(QP {:#x}, {:?})", self.qp_num(), self.status())
    }
}

impl<C> Received<Buf<C>> {
    /// The message: empty if the receive had no buffer, or if the data went elsewhere.
    pub fn data(&self) -> &[u8] {
        self.entry.as_deref().unwrap_or(&[])
    }
}

impl<E: Entry> Received<E> {
    /// The message, buffer by buffer.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        segments(&self.entry, 0)
    }
}

pub(super) fn segments<E: Entry>(
    entry: &Option<E>,
    mut skip: usize,
) -> impl Iterator<Item = &[u8]> {
    let all = (0..).map_while(move |i| entry.as_ref()?.segment(i));
    all.filter_map(move |segment| {
        let here = skip.min(segment.len());
        skip -= here;
        (here < segment.len()).then(|| &segment[here..])
    })
}
