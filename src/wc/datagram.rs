//! Arrivals on UD: 40 bytes of GRH space, and the payload behind them.

use std::fmt;

use super::segments;
use crate::ah::{AddressVector, Gid, GlobalRoute};
use crate::bounded::{Qpn, ServiceLevel};
use crate::buf::Buf;
use crate::entry::Entry;

/// The 40 bytes before the payload of a UD message.
pub const GRH_LEN: usize = 40;

/// An arrival on UD: [`Outcome::Datagram`](crate::Outcome::Datagram) (ibv_poll_cq(3), R5.8).
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::DatagramEnds { context, pd, mut a, mut b, mut cq, pool, to_b, .. } = proverbs::guide::datagram_ends()?;
/// b.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?; // 40 bytes of it are for the GRH
/// a.post_send(Send::inline(b"hello").to(to_b))?;
/// let message: UdReceived<Buf> = loop {
///     if let Some(Outcome::Datagram(message)) = cq.poll_one()?.map(Completion::outcome) {
///         break message;
///     }
/// };
/// assert_eq!((message.payload(), message.payload_len()), (&b"hello"[..], 5));
/// assert_eq!(message.payload_segments().collect::<Vec<_>>().concat(), b"hello");
/// assert_eq!((message.byte_len, message.src_qp.get()), (45, a.qp_num()));
///
/// // Whence it came, and how to answer.
/// let grh: Grh = message.grh().ok_or("RoCE has one always")?;
/// assert_eq!(grh.source(), Some(context.query_gid(1, 1)?));
/// assert_eq!(grh.source(), grh.destination()); // one device
/// let back: AddressVector = message.reply_vector(1, 1).ok_or("no GRH")?;
/// let _ah = pd.create_ah(back)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UdReceived<E> {
    /// The entry, its length set to what arrived, GRH included; `None` if the receive had no buffer.
    pub entry: Option<E>,
    /// Bytes that arrived, with the 40 of the GRH (R5.8).
    pub byte_len: u32,
    /// The immediate, in host order.
    pub imm_data: Option<u32>,
    /// The queue pair that received it.
    pub qp_num: u32,
    /// The queue pair that sent it.
    pub src_qp: Qpn,
    pub(super) grh: bool,
    pub(super) sl: u8,
    pub(super) slid: u16,
}

impl<C> UdReceived<Buf<C>> {
    /// The message without the GRH.
    pub fn payload(&self) -> &[u8] {
        self.entry.as_deref().and_then(|bytes| bytes.get(GRH_LEN..)).unwrap_or(&[])
    }
}

impl<E: Entry> UdReceived<E> {
    /// The message without the GRH, buffer by buffer, however the GRH lies in them.
    pub fn payload_segments(&self) -> impl Iterator<Item = &[u8]> {
        segments(&self.entry, GRH_LEN)
    }

    /// Bytes of the message, without the GRH.
    pub fn payload_len(&self) -> usize {
        (self.byte_len as usize).saturating_sub(GRH_LEN)
    }

    /// The GRH, if the message had one (R5.9), put together from as many buffers as it spans.
    pub fn grh(&self) -> Option<Grh> {
        let mut bytes = [0; GRH_LEN];
        let mut at = 0;
        for segment in segments(&self.entry, 0) {
            let here = segment.len().min(GRH_LEN - at);
            bytes[at..at + here].copy_from_slice(&segment[..here]);
            at += here;
        }
        (self.grh && at == GRH_LEN).then_some(Grh(bytes))
    }

    /// The address vector that leads back to the sender (R5.11); `None` without a GRH of a known form
    /// on RoCE.
    pub fn reply_vector(&self, port: u8, sgid_index: u8) -> Option<AddressVector> {
        let sl = ServiceLevel::new(self.sl & 15)?;
        let global = match self.grh().and_then(|grh| grh.source()) {
            Some(dgid) => Some(GlobalRoute::new(dgid, sgid_index)),
            None if self.slid != 0 => None,
            None => return None,
        };
        Some(AddressVector { port, dlid: self.slid, sl, global })
    }
}

/// A global routing header ([`UdReceived::grh`], R5.9): IPv6's form, or (RoCE v2 over IPv4) 20 bytes of nothing and an IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Grh(pub [u8; GRH_LEN]);

impl Grh {
    /// The sender's GID; IPv4 addresses are mapped. `None` if the header has neither form.
    pub fn source(&self) -> Option<Gid> {
        self.address(8, 12)
    }

    /// The receiver's GID.
    pub fn destination(&self) -> Option<Gid> {
        self.address(24, 16)
    }

    fn address(&self, v6: usize, v4: usize) -> Option<Gid> {
        let mut gid = [0; 16];
        if self.0[20] >> 4 == 4 && self.0[0] >> 4 != 6 {
            gid[10..12].fill(0xff);
            gid[12..].copy_from_slice(&self.0[20 + v4..24 + v4]);
        } else if self.0[0] >> 4 == 6 {
            gid.copy_from_slice(&self.0[v6..v6 + 16]);
        } else {
            return None;
        }
        Some(Gid(gid))
    }
}

impl fmt::Debug for Grh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grh({:?} -> {:?})", self.source(), self.destination())
    }
}
