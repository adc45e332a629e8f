//! The record in which the two ends exchange their addresses: LID, queue pair, first packet
//! sequence number and GID, as `LLLL:QQQQQQ:PPPPPP:` and 32 digits, all hexadecimal, and a NUL.

use proverbs::bounded::{Mtu, Psn, Qpn};
use proverbs::device::Gid;
use proverbs::endpoint::{Endpoint, Service};

/// A record without a queue pair. The C programs always send the maximum number of records.
pub const UNUSED: &str = "0000:000000:000000:00000000000000000000000000000000\0";

/// A record without its NUL.
pub fn to_text(of: &Endpoint) -> String {
    let (qpn, psn, gid) = (of.qpn().get(), of.psn().get(), u128::from_be_bytes(of.gid().0));
    format!("{:04x}:{qpn:06x}:{psn:06x}:{gid:032x}", of.lid())
}

pub fn from_wire(wire: &[u8], service: Service) -> Option<Endpoint> {
    let text = std::str::from_utf8(wire.strip_suffix(b"\0")?).ok()?;
    let fields: Vec<&str> = text.split(':').collect();
    let [lid, qpn, psn, gid] = fields[..] else { return None };
    let (qpn, psn) = (Qpn::new(hex(qpn, 6)? as u32)?, Psn::new(hex(psn, 6)? as u32)?);
    // The record does not contain an MTU.
    let peer = Endpoint::new(service, qpn, psn, Mtu::Bytes4096).ok()?;
    Some(peer.with_lid(hex(lid, 4)? as u16).with_gid(Gid(hex(gid, 32)?.to_be_bytes())))
}

/// A number of exactly `digits` digits, no sign.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| plain)
}
