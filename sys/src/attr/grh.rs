//! The header before the payload of a datagram.

use std::net::Ipv4Addr;

use crate::terms::gid::Gid;

/// The 40 bytes before the payload of a UD message.
pub const GRH_LEN: usize = 40;

/// A global routing header ([`UdReceived::grh`], [R5.9]). It is an IPv6 header or, for RoCE v2 over
/// IPv4, 20 bytes that the device may leave unwritten followed by an IPv4 header.
///
/// [`UdReceived::grh`]:
/// https://docs.rs/proverbs/latest/proverbs/completion/struct.UdReceived.html#method.grh
/// [R5.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-9
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grh(pub [u8; GRH_LEN]);

impl Grh {
    /// The sender's GID, an IPv4 address in mapped form; `None` if the header has neither form.
    pub fn source(&self) -> Option<Gid> {
        self.address(8, 12)
    }

    /// The receiver's GID, in the same form as [`source`](Self::source).
    pub fn destination(&self) -> Option<Gid> {
        self.address(24, 16)
    }

    /// Whether this is an IPv4 header, which begins in the middle. The bytes before it may look
    /// like IPv6, and an IPv6 address may look like the beginning of IPv4, so IPv4's checksum
    /// decides.
    fn is_v4(&self) -> bool {
        let header = &self.0[20..];
        match self.0[0] >> 4 {
            6 => header[0] == 0x45 && has_right_sum(header),
            _ => header[0] >> 4 == 4,
        }
    }

    fn address(&self, v6: usize, v4: usize) -> Option<Gid> {
        if self.is_v4() {
            let address: [u8; 4] = self.0[20 + v4..24 + v4].try_into().ok()?;
            return Some(Gid(Ipv4Addr::from(address).to_ipv6_mapped().octets()));
        }
        (self.0[0] >> 4 == 6).then_some(Gid(self.0[v6..v6 + 16].try_into().ok()?))
    }
}

/// Whether the checksum of an IPv4 header is correct: the sum of its words (RFC 1071).
fn has_right_sum(header: &[u8]) -> bool {
    let words =
        header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    // In one's complement all ones is also zero, and no IPv4 header is all zeroes.
    words.sum::<u32>() % 0xffff == 0
}

impl_debug!(Grh, |it| "Grh({:?} -> {:?})", it.source(), it.destination());
