//! The outcome of a completion, sorted by kind, and its fields.

#![allow(unsafe_code)] // reads headers of entries, and C structs

use std::borrow::Cow;

use crate::completion::wc::{Promised, Success};
use crate::completion::{Completion, UdReceived, WcError};
use crate::counters::queue_counters::QueueCounters;
use crate::memory::header::{Header, word};
use crate::memory::{AnyBuf, Buf, BufList, Entry, OpenBuf, Owned, Raw, ReadOnlyBuf, SharedBuf};
use crate::sys::types::ibv_wc_opcode;
pub use crate::terms::wc::Direction;
use crate::work::wc_opcode::WcOpcode;

/// A completion, sorted by kind, with the buffer of its work request. Returned by
/// [`Completion::outcome`] (ibv_poll_cq(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::{Failed, Sent, WcOpcode};
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } = proverbs::loopback::pair()?;
/// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(wr::Send::inline(b"hello"))?;
/// b.to_error()?; // perhaps before the message arrived
/// let (mut sent, mut received, mut failed) = (0, 0, 0);
/// while sent + failed == 0 || received + failed == 0 {
///     for completion in cq.poll()? {
///         match completion.outcome() {
///             Outcome::Sent(Sent { opcode, .. }) => sent += (opcode == WcOpcode::Send) as u32,
///             Outcome::Received(message) => received += message.entry.is_some() as u32,
///             Outcome::Failed(Failed { entry, direction, error, .. }) => {
///                 println!("{direction:?}: {error}, buffer back: {}", entry.is_some());
///                 failed += 1;
///             }
///             Outcome::Datagram(_) | Outcome::Selective(_) => unreachable!("RC, and every send signaled"),
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum Outcome<'cq, E: Entry> {
    /// A work request of a send queue with [`SignalAll`](crate::qp::SignalAll) succeeded.
    ///
    /// On RC the peer's device has acknowledged it. On UC and UD it has only been sent
    /// ([R10.10](crate::guide::rules#r10-10)).
    Sent(Sent<E>),
    /// A message arrived on RC or UC, or an RDMA WRITE with immediate completed.
    Received(Received<E>),
    /// A message arrived on UD.
    Datagram(UdReceived<E>),
    /// A work request failed or was flushed. The buffer is returned with unspecified contents
    /// ([R11.7](crate::guide::rules#r11-7)).
    Failed(Failed<E>),
    /// A completion of a selectively signaled send queue. Pass it to
    /// [`complete`](crate::QueuePair::complete) of its queue pair. If another thread owns the queue
    /// pair, [`detach`](Completion::detach) the completion first.
    Selective(Completion<'cq, E>),
}

impl<'cq, E: Entry> Outcome<'cq, E> {
    /// Returns the same outcome without the borrow of the completion queue. You can keep it past
    /// the next poll, and pass it to a `&mut self` method of the struct that owns the queue.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } = proverbs::loopback::pair()?;
    /// # let region = pd.register::<RemoteWrite>(64)?;
    /// a.post_send(wr::RdmaWrite::inline(b"written", region.remote().write()))?;
    /// let mut kept = Vec::new();
    /// while kept.is_empty() {
    ///     for completion in cq.poll()? {
    ///         kept.extend(completion.outcome().detach());
    ///     }
    /// }
    /// assert!(cq.poll_one()?.is_none() && matches!(kept[0], Outcome::Sent(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The completion, if it belongs to a [selectively signaled](Outcome::Selective) queue. Pass it
    /// to [`complete`](crate::QueuePair::complete) before the next poll, or
    /// [`detach`](Completion::detach) it.
    pub fn detach(self) -> Result<Outcome<'static, E>, Completion<'cq, E>> {
        Ok(match self {
            Outcome::Sent(sent) => Outcome::Sent(sent),
            Outcome::Received(message) => Outcome::Received(message),
            Outcome::Datagram(message) => Outcome::Datagram(message),
            Outcome::Failed(failed) => Outcome::Failed(failed),
            Outcome::Selective(completion) => return Err(completion),
        })
    }

    /// The number of the queue pair (`qp_num` of ibv_poll_cq(3)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } = proverbs::loopback::pair()?;
    /// # let region = pd.register::<RemoteWrite>(64)?;
    /// # let at = region.remote().write();
    /// a.post_send(wr::RdmaWrite::inline(b"written", at).with_id(7))?;
    /// let kept: Outcome<'static, Buf> = loop {
    ///     if let Some(completion) = cq.poll_one()? {
    ///         break completion.outcome().detach().map_err(|_| "every send is signaled")?;
    ///     }
    /// };
    /// assert_eq!((kept.qp_num(), kept.id()), (a.qp_num(), 7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn qp_num(&self) -> u32 {
        match self {
            Outcome::Sent(sent) => sent.qp_num,
            Outcome::Received(message) => message.qp_num,
            Outcome::Datagram(message) => message.qp_num,
            Outcome::Failed(failed) => failed.qp_num,
            Outcome::Selective(completion) => completion.qp_num(),
        }
    }

    /// The 16-bit id that was assigned to a send without a buffer
    /// ([`with_id`](crate::wr::WorkRequest::with_id)), as for [`Completion::id`]. It is 0 for
    /// receives and for [`Selective`](Outcome::Selective). For a selective completion, use
    /// [`Released::id`](crate::qp::Released::id).
    #[doc(alias = "wr_id")]
    pub fn id(&self) -> u16 {
        match self {
            Outcome::Sent(sent) => sent.id,
            Outcome::Failed(failed) => failed.id,
            Outcome::Received(_) | Outcome::Datagram(_) | Outcome::Selective(_) => 0,
        }
    }
}

/// A send that succeeded: [`Outcome::Sent`] (ibv_poll_cq(3)).
#[derive(Debug)]
pub struct Sent<E> {
    /// The buffer; `None` if the work request had none.
    pub entry: Option<E>,
    /// The id of a work request without a buffer, as for [`Completion::id`].
    pub id: u16,
    /// The operation.
    pub opcode: WcOpcode,
    /// The number of the queue pair that it was posted to.
    pub qp_num: u32,
}

/// A work request that failed: [`Outcome::Failed`] (ibv_poll_cq(3)).
#[derive(Debug)]
pub struct Failed<E> {
    /// The buffer; `None` if the work request had none.
    pub entry: Option<E>,
    /// The id of a work request without a buffer, as for [`Completion::id`].
    pub id: u16,
    /// The queue that it was posted to. It comes from the crate's own counters, because an error
    /// completion does not report it ([R10.2](crate::guide::rules#r10-2)).
    pub direction: Direction,
    /// The number of the queue pair that it was posted to.
    pub qp_num: u32,
    /// The reason for the failure.
    pub error: WcError,
}

/// A message that arrived on RC or UC: [`Outcome::Received`] (ibv_poll_cq(3)).
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
/// assert_eq!(message.segments().collect::<Vec<_>>(), [b"hello"]); // one per buffer
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Received<E> {
    /// The buffer, with its length set to the bytes that arrived; `None` if the receive had none.
    /// The length of a piece of a region does not change.
    pub entry: Option<E>,
    /// The number of bytes that arrived. With [`WcOpcode::RecvRdmaWithImm`] they are in the region
    /// that the peer wrote to, not in `entry` ([R1.5](crate::guide::rules#r1-5)).
    pub byte_len: u32,
    /// The immediate data, in host byte order.
    pub imm_data: Option<u32>,
    /// [`WcOpcode::Recv`] or [`WcOpcode::RecvRdmaWithImm`].
    pub opcode: WcOpcode,
    /// The number of the queue pair that received it.
    pub qp_num: u32,
}

impl<E: Entry> Completion<'_, E> {
    /// The operation that completed; `None` if it failed.
    #[inline]
    pub fn opcode(&self) -> Option<WcOpcode> {
        self.wc.success().and_then(|success| WcOpcode::from_c(success.opcode()))
    }

    /// The immediate data in host byte order, if this is a successful receive with immediate data
    /// ([R10.3](crate::guide::rules#r10-3)).
    #[doc(alias = "IBV_WC_WITH_IMM")]
    #[inline]
    pub fn imm_data(&self) -> Option<u32> {
        self.arrival()?.imm_data()
    }

    /// Whether the work request was posted to the queue with these counters and its wr_id
    /// identifies that queue.
    #[inline(always)]
    pub(crate) fn belongs_to(&self, counters: &QueueCounters) -> bool
    where
        E: Owned,
    {
        let word = self.word;
        if word::is_none(word) {
            return !self.is_ring() && counters.has(word::counter(word));
        }
        // SAFETY: this completion owns the entry in the wr_id, so its header is alive.
        let header = unsafe { &*word::address::<Header>(word) };
        counters.has(header.counter())
    }
}

impl Completion<'_, Raw> {
    /// The wr_id of the work request, for [`Raw`](crate::memory::Raw) entries;
    /// [`post_recv_unchecked`](crate::QueuePair::post_recv_unchecked) has an example.
    pub fn raw_wr_id(&self) -> u64 {
        self.word as u64
    }

    /// The number of bytes received or read, for a successful receive, READ or atomic. `None`
    /// otherwise, because the device need not report it ([R10.5](crate::guide::rules#r10-5)).
    pub fn byte_len(&self) -> Option<u32> {
        match self.arrival() {
            Some(arrival) => Some(arrival.byte_len()),
            None => self.wc.success()?.bytes_brought(),
        }
    }
}

impl Promised<'_, Success> {
    /// The number of bytes that a READ or an atomic operation returned.
    fn bytes_brought(self) -> Option<u32> {
        const BRING: [ibv_wc_opcode::Type; 3] = [
            ibv_wc_opcode::IBV_WC_RDMA_READ,
            ibv_wc_opcode::IBV_WC_COMP_SWAP,
            ibv_wc_opcode::IBV_WC_FETCH_ADD,
        ];
        // SAFETY: the field is promised for these opcodes when they succeed.
        BRING.contains(&self.opcode()).then(|| unsafe { (*self.at).byte_len })
    }
}

impl_debug!([E: Entry] Completion<'_, E>, |it|
    "Completion(QP {:#x}, {:?})", it.qp_num(), it.status());

impl<C> Received<Buf<C>> {
    /// The message. It is empty if the receive had no buffer, or if an RDMA WRITE with immediate
    /// consumed the receive.
    pub fn data(&self) -> &[u8] {
        self.entry.as_deref().unwrap_or(&[])
    }
}

impl<C> Received<BufList<C>> {
    /// The message: borrowed if it lies in one buffer, otherwise copied into a `Vec`. To avoid the
    /// copy, use [`segments`](Self::segments).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Scatter { max_recv_sge: 2, entry: BufList } }
    ///
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair_of::<Scatter>()?;
    /// let (mut head, body) = (pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?);
    /// head.set_len(4);
    /// b.post_recv(wr::Recv::new([head, body]))?;
    /// a.post_send(wr::Send::inline(b"head and body"))?;
    /// let message = loop {
    ///     if let Some(Outcome::Received(message)) = cq.poll_one()?.map(Completion::outcome) {
    ///         break message;
    ///     }
    /// };
    /// assert_eq!(message.data(), &b"head and body"[..]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn data(&self) -> Cow<'_, [u8]> {
        joined(self.segments())
    }
}

impl<C> Received<AnyBuf<C>> {
    /// The message: borrowed if it lies in one buffer, otherwise copied into a `Vec`. To avoid the
    /// copy, use [`segments`](Self::segments).
    pub fn data(&self) -> Cow<'_, [u8]> {
        joined(self.segments())
    }
}

impl Received<SharedBuf> {
    /// Always empty, because shared buffers do not receive messages.
    pub fn data(&self) -> &[u8] {
        &[]
    }
}

impl Received<OpenBuf> {
    /// Always empty, because the bytes of a region that peers can access cannot be borrowed as a
    /// slice. Use the region's `read_at`.
    pub fn data(&self) -> &[u8] {
        &[]
    }
}

impl Received<ReadOnlyBuf> {
    /// Always empty, because read-only memory does not receive messages.
    pub fn data(&self) -> &[u8] {
        &[]
    }
}

impl<E: Entry> Received<E> {
    /// The message, one slice per buffer.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        segments(&self.entry, 0)
    }
}

/// All bytes of some segments, borrowed if there is only one.
pub(super) fn joined<'e>(mut segments: impl Iterator<Item = &'e [u8]>) -> Cow<'e, [u8]> {
    let Some(first) = segments.next() else { return Cow::Borrowed(&[]) };
    let Some(second) = segments.next() else { return Cow::Borrowed(first) };
    let mut all = [first, second].concat();
    segments.for_each(|segment| all.extend_from_slice(segment));
    Cow::Owned(all)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives have no number of the program.
    #[test]
    fn only_a_send_has_a_number() {
        let received = |opcode| {
            let (entry, byte_len, imm_data, qp_num) = (None::<Buf>, 3, Some(4), 5);
            Outcome::Received(Received { entry, byte_len, imm_data, opcode, qp_num })
        };
        for opcode in [WcOpcode::Recv, WcOpcode::RecvRdmaWithImm] {
            assert_eq!((received(opcode).id(), received(opcode).qp_num()), (0, 5));
        }
    }

    /// One segment is borrowed. Several are joined in order.
    #[test]
    fn segments_are_joined() {
        let of = |segments: &[&'static [u8]]| joined(segments.iter().copied());
        assert_eq!(of(&[]), Cow::Borrowed(b""));
        assert!(matches!(of(&[b"one"]), Cow::Borrowed(b"one")));
        assert_eq!(*of(&[b"one", b"", b"two"]), *b"onetwo");
        assert_eq!(*of(&[b"a", b"bc", b"d", b"e"]), *b"abcde");
    }
}
