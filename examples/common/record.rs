//! The record by which two ends tell each other where they are.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use proverbs::bounded::{Psn, Qpn};
use proverbs::device::Gid;

use super::Result;

/// LID, queue pair number, first packet sequence number and GID of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub lid: u16,
    pub qpn: Qpn,
    pub psn: Psn,
    pub gid: Gid,
}

/// A record on the wire, `LLLL:QQQQQQ:PPPPPP:` and 32 digits of GID, all hexadecimal, and a NUL.
pub const WIRE_LEN: usize = 52;

impl Record {
    /// One with a random sequence number, so that packets of an earlier run cannot pass for ours.
    pub fn new(lid: u16, qp_num: u32, gid: Gid) -> Result<Record> {
        let random = RandomState::new().hash_one(qp_num) as u32;
        let psn = Psn::try_from(random & Psn::MAX.get())?;
        Ok(Record { lid, qpn: Qpn::try_from(qp_num)?, psn, gid })
    }

    /// What is sent where there is no queue pair (the C programs always send as many as they can
    /// have).
    pub fn unused() -> Result<Record> {
        let (qpn, psn) = (Qpn::try_from(0)?, Psn::try_from(0)?);
        Ok(Record { lid: 0, qpn, psn, gid: Gid::default() })
    }

    pub fn is_unused(&self) -> bool {
        self.qpn.get() == 0
    }

    pub fn to_wire(self) -> Vec<u8> {
        let Record { lid, qpn, psn, gid } = self;
        let gid: String = gid.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{lid:04x}:{:06x}:{:06x}:{gid}\0", qpn.get(), psn.get()).into_bytes()
    }

    pub fn from_wire(wire: &[u8]) -> Result<Record> {
        parse(wire).ok_or_else(|| {
            let text = wire.escape_ascii();
            format!("the peer's record is not LLLL:QQQQQQ:PPPPPP:GID in hexadecimal: \"{text}\"")
                .into()
        })
    }
}

fn parse(wire: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(wire.strip_suffix(b"\0")?).ok()?;
    let fields: Vec<&str> = text.split(':').collect();
    let [lid, qpn, psn, gid] = fields[..] else { return None };
    let (lid, qpn, psn) = (hex(lid, 4)?, hex(qpn, 6)?, hex(psn, 6)?);
    Some(Record {
        lid: u16::try_from(lid).ok()?,
        qpn: Qpn::new(u32::try_from(qpn).ok()?)?,
        psn: Psn::new(u32::try_from(psn).ok()?)?,
        gid: Gid(hex(gid, 32)?.to_be_bytes()),
    })
}

/// A number of exactly `digits` digits, no sign.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u128::from_str_radix(text, 16).ok() } else { None }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { lid, qpn, psn, gid } = self;
        let (qpn, psn) = (qpn.get(), psn.get());
        write!(f, "LID {lid:#06x}, QPN {qpn:#08x}, PSN {psn:#08x}, GID {gid}")
    }
}
