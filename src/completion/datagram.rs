//! Messages that arrive on UD: 40 bytes of GRH space, and then the payload.

use std::borrow::Cow;

use crate::completion::outcome::{joined, segments};
use crate::completion::{GRH_LEN, Grh};
use crate::device::{AddressVector, GlobalRoute};
use crate::memory::{AnyBuf, Buf, BufList, Entry};
use crate::terms::bounded::{Qpn, ServiceLevel};

/// A message that arrived on UD. Returned in [`Outcome::Datagram`](crate::Outcome::Datagram)
/// (ibv_poll_cq(3), [R5.8](crate::guide::rules#r5-8)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::{Grh, UdReceived};
/// # let proverbs::loopback::DatagramPair { context, pd, mut a, mut b, mut cq, pool, to_b, .. } =
/// #     proverbs::loopback::datagram_pair()?;
/// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?; // 40 bytes are for the GRH
/// a.post_send(wr::Send::inline(b"hello").to(to_b))?;
/// let message: UdReceived<Buf> = loop {
///     if let Some(Outcome::Datagram(message)) = cq.poll_one()?.map(Completion::outcome) {
///         break message;
///     }
/// };
/// assert_eq!((message.payload(), message.payload_len()), (&b"hello"[..], 5));
/// assert_eq!(message.payload_segments().collect::<Vec<_>>().concat(), b"hello");
/// assert_eq!((message.byte_len, message.src_qp.get()), (45, a.qp_num()));
///
/// // The source, and how to answer.
/// let grh: Grh = message.grh().ok_or("RoCE always has one")?;
/// let here = context.roce_v2_gid(1)?; // of port 1
/// assert_eq!(grh.source(), Some(here.gid()));
/// assert_eq!(grh.source(), grh.destination()); // one device
/// let back: AddressVector = message.reply_vector(1, here.index()).ok_or("no GRH")?;
/// let _ah = pd.create_ah(back)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_wc", "slid", "dlid_path_bits", "ibv_grh", "sgid", "dgid"))]
#[derive(Debug)]
pub struct UdReceived<E> {
    /// The buffer of the receive, with its length set to the bytes that arrived, including the GRH;
    /// `None` if the receive had no buffer.
    pub entry: Option<E>,
    /// The number of bytes that arrived, including 40 for the GRH
    /// ([R5.8](crate::guide::rules#r5-8)).
    pub byte_len: u32,
    /// The immediate data, in host byte order.
    pub imm_data: Option<u32>,
    /// The number of the queue pair that received it.
    pub qp_num: u32,
    /// The queue pair that sent it.
    pub src_qp: Qpn,
    pub(crate) grh: bool,
    pub(crate) sl: u8,
    pub(crate) slid: u16,
}

impl<C> UdReceived<Buf<C>> {
    /// The message without the GRH.
    pub fn payload(&self) -> &[u8] {
        self.entry.as_deref().and_then(|bytes| bytes.get(GRH_LEN..)).unwrap_or(&[])
    }
}

impl<C> UdReceived<BufList<C>> {
    /// The message without the GRH: borrowed if it lies in one buffer, otherwise copied into a
    /// `Vec`. To avoid the copy, use [`payload_segments`](Self::payload_segments).
    pub fn payload(&self) -> Cow<'_, [u8]> {
        joined(self.payload_segments())
    }
}

impl<C> UdReceived<AnyBuf<C>> {
    /// The message without the GRH: borrowed if it lies in one buffer, otherwise copied into a
    /// `Vec`. To avoid the copy, use [`payload_segments`](Self::payload_segments).
    pub fn payload(&self) -> Cow<'_, [u8]> {
        joined(self.payload_segments())
    }
}

impl<E: Entry> UdReceived<E> {
    /// The message without the GRH, one slice per buffer. The GRH may span several buffers.
    pub fn payload_segments(&self) -> impl Iterator<Item = &[u8]> {
        segments(&self.entry, GRH_LEN)
    }

    /// The length of the message in bytes, without the GRH.
    pub fn payload_len(&self) -> usize {
        (self.byte_len as usize).saturating_sub(GRH_LEN)
    }

    /// The GRH, if the message had one ([R5.9](crate::guide::rules#r5-9)), copied from the buffers
    /// that it spans.
    #[doc(alias = "IBV_WC_GRH")]
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

    /// The address vector for a reply to the sender ([R5.11](crate::guide::rules#r5-11)); `None` on
    /// RoCE if the message has no GRH of a known form. If the port has several LIDs, the reply is
    /// sent from the first LID. To send it from the LID that the datagram was addressed to, set
    /// `src_path_bits` of the vector to
    /// [`dlid_path_bits`](crate::ext::extended_polling::ReadFields::dlid_path_bits).
    #[doc(alias("ibv_init_ah_from_wc", "ibv_create_ah_from_wc", "version_tclass_flow"))]
    #[doc(alias = "hop_limit")]
    pub fn reply_vector(&self, port: u8, sgid_index: u8) -> Option<AddressVector> {
        let sl = ServiceLevel::new(self.sl & 15)?;
        let global = match self.grh().and_then(|grh| grh.source()) {
            Some(dgid) => Some(GlobalRoute::new(dgid, sgid_index)),
            None if self.slid != 0 => None,
            None => return None,
        };
        Some(AddressVector { sl, global, ..AddressVector::infiniband(port, self.slid) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::terms::gid::Gid;

    /// The address vector of the reply, from the fields of the completion.
    #[test]
    fn the_way_back() {
        let arrival = |grh, sl, slid| {
            let (byte_len, imm_data, qp_num, src_qp) = (40, None, 17, Qpn::new(18).unwrap());
            let entry = None::<Buf>;
            UdReceived { entry, byte_len, imm_data, qp_num, src_qp, grh, sl, slid }
        };
        let way = arrival(false, 3, 9).reply_vector(2, 5).unwrap();
        assert_eq!((way.port, way.dlid, way.sl.get(), way.global), (2, 9, 3, None));
        // The service level is four bits.
        assert_eq!(arrival(false, 0xf5, 1).reply_vector(1, 0).unwrap().sl.get(), 5);
        // There is no address without GRH and LID, nor with a GRH that is not in a buffer.
        assert_eq!(arrival(false, 0, 0).reply_vector(1, 0), None);
        assert_eq!(arrival(true, 0, 0).reply_vector(1, 0), None);
        let bare = arrival(true, 0, 7);
        assert_eq!((bare.grh(), bare.payload_len(), bare.payload().len()), (None, 0, 0));
        assert_eq!(bare.reply_vector(1, 0).unwrap().dlid, 7);
    }

    /// An IPv4 header with its checksum, after 20 arbitrary bytes.
    fn over_ipv4(before: [u8; 20], rest: [u8; 11], source: [u8; 4], destination: [u8; 4]) -> Grh {
        let mut header = [0; 20];
        header[0] = 0x45;
        header[1..12].copy_from_slice(&rest);
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&source);
        header[16..].copy_from_slice(&destination);
        // RFC 791: the complement of the sum of all words.
        let mut sum = 0u64;
        for word in header.chunks(2) {
            sum += u64::from(word[0]) << 8 | u64::from(word[1]);
        }
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        header[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
        let mut all = [0; GRH_LEN];
        all[..20].copy_from_slice(&before);
        all[20..].copy_from_slice(&header);
        Grh(all)
    }

    fn mapped(v4: [u8; 4]) -> Option<Gid> {
        let mut gid = [0; 16];
        gid[10..12].fill(0xff);
        gid[12..].copy_from_slice(&v4);
        Some(Gid(gid))
    }

    fn cases() -> ProptestConfig {
        ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(cases())]

        /// The bytes before an IPv4 header do not matter, even if they look like IPv6.
        ///
        /// 20 undefined bytes before an IPv4 header are never taken for an IPv6 header.
        /// Proves R5.11.
        #[test]
        #[cfg_attr(miri, ignore = "only arithmetic, and proptest is slow")]
        fn garbage_before_an_ipv4_header_is_nothing(
            mut before: [u8; 20],
            looks_like_ipv6: bool,
            rest: [u8; 11],
            source: [u8; 4],
            destination: [u8; 4],
        ) {
            if looks_like_ipv6 {
                before[0] = 0x60 | before[0] & 15;
            }
            let grh = over_ipv4(before, rest, source, destination);
            prop_assert_eq!(grh.source(), mapped(source));
            prop_assert_eq!(grh.destination(), mapped(destination));
        }

        /// An IPv6 address that looks like the beginning of an IPv4 header stays one.
        /// Proves R5.11.
        #[test]
        #[cfg_attr(miri, ignore = "only arithmetic, and proptest is slow")]
        fn an_ipv6_header_is_not_taken_for_ipv4(mut bytes: [u8; 20], mut end: [u8; 20], like_v4: bool) {
            bytes[0] = 0x60 | bytes[0] & 15;
            if like_v4 {
                end[0] = 0x45;
            }
            let mut all = [0; GRH_LEN];
            all[..20].copy_from_slice(&bytes);
            all[20..].copy_from_slice(&end);
            // The checksum is right by chance once in 65,536 times. The two cannot be told apart
            // then.
            prop_assume!(end[0] != 0x45 || over_ipv4(
                bytes,
                end[1..12].try_into().unwrap(),
                end[12..16].try_into().unwrap(),
                end[16..].try_into().unwrap(),
            ).0[30..32] != end[10..12]);
            let grh = Grh(all);
            prop_assert_eq!(grh.source(), Some(Gid(all[8..24].try_into().unwrap())));
            prop_assert_eq!(grh.destination(), Some(Gid(all[24..].try_into().unwrap())));
        }
    }

    #[test]
    fn a_header_that_is_neither_has_no_address() {
        let mut all = [0; GRH_LEN];
        all[0] = 0x50;
        all[20] = 0x55;
        assert_eq!((Grh(all).source(), Grh(all).destination()), (None, None));
        // With options the header would exceed the space.
        all[20] = 0x46;
        assert!(Grh(all).source().is_some(), "libibverbs does this if nothing looks like IPv6");
    }
}
