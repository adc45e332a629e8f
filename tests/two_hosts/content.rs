//! Messages that show their number and whether they are whole.

use crate::Result;

/// A message with its own length for each number, which contains at least the number.
pub struct Content {
    /// The longest message, bytes.
    pub longest: usize,
}

/// The number of a message that only ends the transfer.
pub const MARKER: u32 = u32::MAX;

impl Content {
    pub fn of(&self, number: u32) -> Vec<u8> {
        let mut state = mix(number);
        let length = 4 + state as usize % (self.longest - 3);
        let mut bytes = number.to_be_bytes().to_vec();
        while bytes.len() < length {
            state = mix(state);
            bytes.extend_from_slice(&state.to_be_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// The number of an arrived message, if every byte of it is right.
    pub fn check(&self, bytes: &[u8]) -> Result<u32> {
        let head = bytes.first_chunk().ok_or("a message of less than four bytes arrived")?;
        let number = u32::from_be_bytes(*head);
        let right = self.of(number);
        if bytes == right {
            return Ok(number);
        }
        let at = bytes.iter().zip(&right).position(|(a, b)| a != b);
        let (length, sent) = (bytes.len(), right.len());
        Err(format!("message {number}: {length} bytes of {sent}, the first wrong one at {at:?}")
            .into())
    }
}

/// A bijection without a visible pattern.
fn mix(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x7feb_352d);
    let n = (n ^ n >> 15).wrapping_mul(0x846c_a68b);
    (n ^ n >> 16).wrapping_add(0x9e37_79b9)
}
