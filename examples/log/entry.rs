//! What the bytes of a log mean.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | the number of the last entry that is committed |
//! | 64 n | 64 | entry n, from 1 on: its number (8), checksum (4), length (4), text |
//!
//! Integers are in the machine's order: all hosts are alike. The checksum tells an entry that is
//! there from one that is being written, or that a dying leader left half.

use crate::Result;

/// The bytes of an entry.
pub const SLOT: usize = 64;
/// The most bytes of text.
pub const MAX_TEXT: usize = SLOT - 16;
/// The entries that a log has room for.
pub const MOST: u64 = 4095;
/// The bytes of a log.
pub const LEN: usize = SLOT * (MOST as usize + 1);

/// Where entry `n` is.
pub fn offset(n: u64) -> usize {
    n as usize * SLOT
}

/// The bytes of entry `n`.
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

/// The text of entry `n`, if that is what these bytes are.
pub fn from_bytes(n: u64, slot: &[u8; SLOT]) -> Option<Vec<u8>> {
    let number = |at: usize| slot[at..at + 4].try_into().map(u32::from_ne_bytes).ok();
    let is_whole = slot[..8] == n.to_ne_bytes() && number(8)? == checksum(slot);
    let len = number(12)? as usize;
    if is_whole { slot.get(16..16 + len).map(<[u8]>::to_vec) } else { None }
}

/// FNV-1a of all but the checksum itself.
fn checksum(slot: &[u8; SLOT]) -> u32 {
    let bytes = slot[..8].iter().chain(&slot[12..]);
    bytes.fold(0x811c_9dc5, |sum, &byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
