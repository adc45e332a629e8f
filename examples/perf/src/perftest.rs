//! The messages of perftest, which `ib_send_lat`, `ib_write_bw` and the others exchange outside the
//! queue pairs. Messages with another format are rejected.

use proverbs::bounded::{Mtu, Psn, Qpn};
use proverbs::device::Gid;

use crate::Result;

/// The TCP port of perftest.
pub const PORT: u16 = 18515;

/// The version that this end reports. Newer programs accept it like older ones.
pub const VERSION: [u8; 16] = *b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";

/// The versions of perftest in Debian 12 and Debian 13, which were tested.
pub const TRIED: [&str; 2] = ["6.06", "6.24"];

/// Whether a peer with this version is known to use the same protocol, or may do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    Tried,
    /// Another perftest 6.
    Untried,
    Stranger,
}

pub fn likeness(version: &[u8; 16]) -> Likeness {
    let text = text_of(version);
    let numbers = text.strip_prefix("6.").unwrap_or_default();
    let is_six = numbers.len() == 2 && numbers.bytes().all(|byte| byte.is_ascii_digit());
    match is_six {
        _ if TRIED.contains(&text.as_str()) => Likeness::Tried,
        true => Likeness::Untried,
        false => Likeness::Stranger,
    }
}

/// Bytes of the keys over TCP.
pub const KEYS_LEN: usize = 108;

/// Bytes of the keys over rdma_cm.
pub const RECORD_LEN: usize = 56;

/// The address of a queue pair and its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    pub lid: u16,
    /// The number of READs and atomics that may be outstanding at this end.
    pub out_reads: u16,
    pub qpn: Qpn,
    pub psn: Psn,
    pub rkey: u32,
    pub address: u64,
    pub gid: Gid,
}

impl Keys {
    /// Hexadecimal fields, each followed by a colon, and a NUL. The last field is the number of a
    /// shared receive queue, for XRC.
    pub fn to_wire(self) -> [u8; KEYS_LEN] {
        let Keys { lid, out_reads, qpn, psn, rkey, address, gid } = self;
        let gid: String = gid.0.iter().map(|byte| format!("{byte:02x}:")).collect();
        let text = format!(
            "{lid:04x}:{out_reads:04x}:{:06x}:{:06x}:{rkey:08x}:{address:016x}:{gid}{:08x}:\0",
            qpn.get(),
            psn.get(),
            0
        );
        let mut wire = [0; KEYS_LEN];
        wire.copy_from_slice(text.as_bytes());
        wire
    }

    pub fn from_wire(wire: &[u8; KEYS_LEN]) -> Result<Keys> {
        parse(wire).ok_or_else(|| {
            let text = wire.escape_ascii();
            format!(
                "the peer's keys do not have the format of perftest {}: \"{text}\"",
                text_of(&VERSION)
            )
            .into()
        })
    }
}

impl Keys {
    /// Over rdma_cm: the C struct, with 32 bits for each field up to the key, 4 bytes of padding,
    /// the address, the GID, and a shared receive queue and an index that are not used here. All
    /// fields are big-endian.
    pub fn to_record(self) -> [u8; RECORD_LEN] {
        let Keys { lid, out_reads, qpn, psn, rkey, address, gid } = self;
        let words = [lid.into(), out_reads.into(), qpn.get(), psn.get(), rkey, 0];
        let mut record = [0; RECORD_LEN];
        for (at, word) in record.chunks_mut(4).zip(words) {
            at.copy_from_slice(&word.to_be_bytes());
        }
        record[24..32].copy_from_slice(&address.to_be_bytes());
        record[32..48].copy_from_slice(&gid.0);
        record
    }

    pub fn from_record(record: &[u8; RECORD_LEN]) -> Result<Keys> {
        let (words, rest) = record.split_at(24);
        let mut words = words
            .chunks(4)
            .map(|word| word.iter().fold(0, |all, &byte| all << 8 | u32::from(byte)));
        let mut word = |what: &str, most: u32| {
            let word = words.next().filter(|&word| word <= most);
            word.ok_or_else(|| format!("the peer's {what} exceeds {most:#x}"))
        };
        let most = u16::MAX.into();
        Ok(Keys {
            lid: word("LID", most)? as u16,
            out_reads: word("number of READs", most)? as u16,
            qpn: Qpn::try_from(word("queue pair number", Qpn::MAX.get())?)?,
            psn: Psn::try_from(word("first PSN", Psn::MAX.get())?)?,
            rkey: word("key", u32::MAX)?,
            address: rest[..8].iter().fold(0, |all, &byte| all << 8 | u64::from(byte)),
            gid: Gid(rest[8..24].try_into()?),
        })
    }
}

fn parse(wire: &[u8; KEYS_LEN]) -> Option<Keys> {
    let text = std::str::from_utf8(wire.strip_suffix(b":\0")?).ok()?;
    let fields: Vec<&str> = text.split(':').collect();
    let [lid, out_reads, qpn, psn, rkey, address, gid @ .., _srqn] = &fields[..] else {
        return None;
    };
    let gid: Option<Vec<u8>> = gid.iter().map(|byte| Some(hex(byte, 2)? as u8)).collect();
    Some(Keys {
        lid: hex(lid, 4)? as u16,
        out_reads: hex(out_reads, 4)? as u16,
        qpn: Qpn::new(hex(qpn, 6)? as u32)?,
        psn: Psn::new(hex(psn, 6)? as u32)?,
        rkey: hex(rkey, 8)? as u32,
        address: hex(address, 16)?,
        gid: Gid(gid?.try_into().ok()?),
    })
}

/// A number of exactly `digits` digits, no sign.
fn hex(text: &str, digits: usize) -> Option<u64> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u64::from_str_radix(text, 16).ok() } else { None }
}

/// Up to the NUL.
pub fn text_of(version: &[u8; 16]) -> String {
    let text = version.split(|&byte| byte == 0).next().unwrap_or_default();
    text.escape_ascii().to_string()
}

/// A client's results for WRITEs, READs or atomics. A server does not have results.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Bytes of a message.
    pub size: u64,
    pub iters: u64,
    /// MiB/s.
    pub peak: f64,
    /// MiB/s.
    pub average: f64,
    /// Million messages a second.
    pub messages: f64,
}

/// The text of ibv_mtu: 256 bytes are '1', 4096 are '5'.
pub fn digit(mtu: Mtu) -> u8 {
    b'0' + (mtu.bytes().ilog2() - 7) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As sent by a server of `ib_send_lat` 6.06.
    const SAID: &[u8; KEYS_LEN] = b"0000:0001:000011:914054:00000000:0000562ea793b000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:01:00000000:\0";

    #[test]
    fn keys_are_perftests() {
        let keys = Keys::from_wire(SAID).expect("as recorded");
        assert_eq!((keys.lid, keys.out_reads, keys.rkey), (0, 1, 0));
        assert_eq!((keys.qpn.get(), keys.psn.get()), (0x11, 0x91_4054));
        assert_eq!(keys.address, 0x562e_a793_b000);
        assert_eq!(keys.gid.0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1]);
        assert_eq!(&keys.to_wire(), SAID);
    }

    #[test]
    fn versions_are_known_or_alike_or_strange() {
        let of = |text: &str| {
            let mut version = [0; 16];
            version[..text.len()].copy_from_slice(text.as_bytes());
            likeness(&version)
        };
        assert_eq!([of("6.06"), of("6.24")], [Likeness::Tried; 2]);
        assert_eq!([of("6.05"), of("6.99")], [Likeness::Untried; 2]);
        for strange in ["", "5.99", "7.00", "6.", "6.1", "6.1a", "6.100", "6.06x", "06.6"] {
            assert_eq!(of(strange), Likeness::Stranger, "{strange}");
        }
        assert_eq!(likeness(&[b'6'; 16]), Likeness::Stranger);
    }

    #[test]
    fn keys_that_are_none_are_refused() {
        // Each byte in turn: colons, the NUL, and invalid digits.
        for at in 0..KEYS_LEN {
            let mut wire = *SAID;
            wire[at] = b'+';
            let in_srqn = (98..106).contains(&at);
            assert_eq!(Keys::from_wire(&wire).is_ok(), in_srqn, "byte {at}");
        }
        assert!(Keys::from_wire(&[0xff; KEYS_LEN]).is_err());
        assert!(Keys::from_wire(&[b':'; KEYS_LEN]).is_err());
        assert!(Keys::from_wire(&[0; KEYS_LEN]).is_err());
    }

    #[test]
    fn records_are_perftests() {
        let keys = Keys::from_wire(SAID).expect("as recorded");
        let record = keys.to_record();
        assert_eq!(record[..12], [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x11]);
        assert_eq!(Keys::from_record(&record).expect("the same"), keys);
        // LID, READs, queue pair and PSN have fewer than 32 bits.
        for at in [0, 4, 8, 12] {
            let mut record = record;
            record[at] = 1;
            assert!(Keys::from_record(&record).is_err(), "byte {at}");
        }
    }
}
