//! The layout of a log.
//! | offset | bytes | contents |
//! |---|---|---|
//! | 0 | 8 | the number of the last committed entry |
//! | 64 n | 64 | entry n, from 1 on: its number (8), checksum (4), length (4), text |
//! Integers are in native byte order, because all hosts have the same. The checksum distinguishes a
//! complete entry from one that is being written, or that a dying leader wrote only partly.

use crate::Result;

/// The size of an entry in bytes.
pub const SLOT: usize = 64;
/// The maximum length of the text in bytes.
pub const MAX_TEXT: usize = SLOT - 16;
/// The capacity of a log in entries.
pub const MOST: u64 = 4095;
/// The size of a log in bytes.
pub const LEN: usize = SLOT * (MOST as usize + 1);

/// The offset of entry `n`.
pub fn offset(n: u64) -> usize {
    n as usize * SLOT
}

/// Encodes entry `n`.
pub fn to_bytes(n: u64, text: &[u8]) -> Result<[u8; SLOT]> {
    if text.len() > MAX_TEXT {
        return Err(format!("an entry has at most {MAX_TEXT} bytes, not {}", text.len()).into());
    }
    let mut slot = [0; SLOT];
    slot[..8].copy_from_slice(&n.to_ne_bytes());
    slot[12..16].copy_from_slice(&(text.len() as u32).to_ne_bytes());
    slot[16..16 + text.len()].copy_from_slice(text);
    let sum = checksum(&slot);
    slot[8..12].copy_from_slice(&sum.to_ne_bytes());
    Ok(slot)
}

/// The text of entry `n`, if these bytes are that entry.
pub fn from_bytes(n: u64, slot: &[u8; SLOT]) -> Option<Vec<u8>> {
    let number = |at: usize| slot[at..at + 4].try_into().map(u32::from_ne_bytes).ok();
    let is_whole = slot[..8] == n.to_ne_bytes() && number(8)? == checksum(slot);
    let len = number(12)? as usize;
    if is_whole { slot.get(16..16 + len).map(<[u8]>::to_vec) } else { None }
}

/// FNV-1a of all bytes except the checksum itself.
fn checksum(slot: &[u8; SLOT]) -> u32 {
    let bytes = slot[..8].iter().chain(&slot[12..]);
    bytes.fold(0x811c_9dc5, |sum, &byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
