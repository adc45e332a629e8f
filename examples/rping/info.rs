//! The message of rping, which describes a buffer.

use proverbs::RemoteSlice;
use proverbs::memory::Access;

use crate::Result;

/// Bytes of a message.
pub const WIRE_LEN: usize = 16;

/// A buffer of the client: address, key and length, all big-endian on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    pub address: u64,
    pub rkey: u32,
    /// Bytes.
    pub length: u32,
}

impl Info {
    pub fn of<A: Access>(slice: RemoteSlice<A>) -> Info {
        let bytes = slice.to_bytes();
        let [address, length] = [0, 8].map(|at| {
            let word = bytes[at..].first_chunk().expect("24 bytes");
            u64::from_be_bytes(*word)
        });
        let rkey = bytes[16..].first_chunk().expect("24 bytes");
        // Buffers here are at most 1 MiB.
        Info { address, rkey: u32::from_be_bytes(*rkey), length: length as u32 }
    }

    pub fn to_wire(self) -> [u8; WIRE_LEN] {
        let mut wire = [0; WIRE_LEN];
        wire[..8].copy_from_slice(&self.address.to_be_bytes());
        wire[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        wire[12..].copy_from_slice(&self.length.to_be_bytes());
        wire
    }

    /// Parses a message from the peer.
    pub fn from_wire(bytes: &[u8]) -> Result<Info> {
        let Ok([a, b, c, d, e, f, g, h, k0, k1, k2, k3, l0, l1, l2, l3]) =
            <[u8; WIRE_LEN]>::try_from(bytes)
        else {
            let len = bytes.len();
            return Err(
                format!("the client's message has {len} bytes instead of {WIRE_LEN}").into()
            );
        };
        let address = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let rkey = u32::from_be_bytes([k0, k1, k2, k3]);
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        if length == 0 || address.checked_add(length.into()).is_none() {
            return Err(format!("a buffer cannot have {length} bytes at {address:#x}").into());
        }
        Ok(Info { address, rkey, length })
    }

    /// The buffer, with the rights that the peer must have given for the next step.
    pub fn slice<A: Access>(self) -> RemoteSlice<A> {
        RemoteSlice::from_parts(self.address, self.length.into(), self.rkey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_is_rpings() {
        let info = Info { address: 0x0102_0304_0506_0708, rkey: 0x0a0b_0c0d, length: 64 };
        let wire = info.to_wire();
        assert_eq!(wire, [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 0, 0, 0, 64]);
        assert_eq!(Info::from_wire(&wire).expect("whole"), info);
    }

    #[test]
    fn what_is_no_buffer_is_refused() {
        let wire = |address, length| Info { address, rkey: 1, length }.to_wire();
        assert!(Info::from_wire(&wire(1, 64)[..15]).is_err());
        assert!(Info::from_wire(&[wire(1, 64).as_slice(), &[0]].concat()).is_err());
        assert!(Info::from_wire(&wire(1, 0)).is_err());
        assert!(Info::from_wire(&wire(u64::MAX, 2)).is_err());
        assert!(Info::from_wire(&wire(u64::MAX - 2, 2)).is_ok());
    }
}
