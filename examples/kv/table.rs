//! The table consists of buckets of slots. A slot contains one key and its value. Both ends must
//! agree on every byte.
//!
//! ```text
//! slot, 64 bytes:   0 checksum, 8 bytes    8 version, 4    12 key's length, 1    13 value's length, 1
//!                  14 key, 18              32 value, 32
//! ```
//!
//! Numbers are little-endian. A slot is empty if its key's length is 0.

use crate::Result;

pub const SLOT: usize = 64;
/// The slots of a bucket, which one READ transfers.
pub const SLOTS: usize = 4;
pub const BUCKET: usize = SLOT * SLOTS;
pub const MAX_KEY: usize = 18;
pub const MAX_VALUE: usize = 32;

const KEY: usize = 14;
const VALUE: usize = 32;

/// The contents of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Counts the changes of the slot.
    pub version: u32,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Slot {
    /// The slot as bytes; keys of 1 to 18 bytes, values of up to 32.
    pub fn to_bytes(&self) -> Result<[u8; SLOT]> {
        let Slot { version, key, value } = self;
        if key.len() > MAX_KEY {
            return Err(format!("a key has at most {MAX_KEY} bytes, not {}", key.len()).into());
        }
        if value.len() > MAX_VALUE {
            return Err(
                format!("a value has at most {MAX_VALUE} bytes, not {}", value.len()).into()
            );
        }
        let mut bytes = [0; SLOT];
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[12] = key.len() as u8;
        bytes[13] = value.len() as u8;
        bytes[KEY..KEY + key.len()].copy_from_slice(key);
        bytes[VALUE..VALUE + value.len()].copy_from_slice(value);
        let sum = hash(&bytes[8..]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        Ok(bytes)
    }

    /// Decodes the bytes. Returns `None` if they are torn, because they were read while the server
    /// wrote them.
    pub fn from_bytes(bytes: &[u8; SLOT]) -> Option<Slot> {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[..8]);
        if *bytes != [0; SLOT] && u64::from_le_bytes(number) != hash(&bytes[8..]) {
            return None;
        }
        let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let key = bytes.get(KEY..KEY + usize::from(bytes[12]))?;
        let value = bytes.get(VALUE..VALUE + usize::from(bytes[13]))?;
        Some(Slot { version, key: key.to_vec(), value: value.to_vec() })
    }
}

/// The bucket of a key.
pub fn bucket(key: &[u8], buckets: usize) -> usize {
    (hash(key) % buckets as u64) as usize
}

/// FNV-1a, which detects accidental changes, but not malicious ones.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A request from a client to the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    Put { key: Vec<u8>, value: Vec<u8> },
    Remove { key: Vec<u8> },
    Stop,
}

/// The length of the longest request in bytes.
pub const MAX_REQUEST: usize = 2 + MAX_KEY + MAX_VALUE;

impl Request {
    /// A letter, the key's length, the key, the value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (letter, key, value) = match self {
            Request::Put { key, value } => (b'p', &key[..], &value[..]),
            Request::Remove { key } => (b'r', &key[..], &[][..]),
            Request::Stop => (b's', &[][..], &[][..]),
        };
        [&[letter, key.len() as u8], key, value].concat()
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Request> {
        let [letter, key_len, rest @ ..] = bytes else { return None };
        let (key, value) = rest.split_at_checked(usize::from(*key_len))?;
        let (key, value) = (key.to_vec(), value.to_vec());
        match letter {
            b'p' => Some(Request::Put { key, value }),
            b'r' => Some(Request::Remove { key }),
            b's' => Some(Request::Stop),
            _ => None,
        }
    }
}
