//! A fabric that loses, delays and reorders.

pub mod rc;
pub mod uc;
pub mod ud;

use std::collections::BTreeSet;

use crate::Result;
use crate::content::MARKER;

/// Messages in each scenario.
pub const MESSAGES: u32 = 300;
/// Markers are sent until one arrives; more than this would be suspicious.
const MARKERS: u32 = 100;
/// A receive for each message and each marker, so that none is lost for lack of a receive.
pub const RECEIVES: usize = (MESSAGES + MARKERS) as usize;

/// The messages that arrived on a lossy transport.
#[derive(Default)]
struct Arrived {
    numbers: BTreeSet<u32>,
    bytes: u64,
    out_of_order: u32,
}

impl Arrived {
    /// Takes a message that is whole. True if it is the marker.
    fn take(&mut self, number: u32, bytes: usize) -> Result<bool> {
        if number == MARKER {
            return Ok(true);
        }
        if number >= MESSAGES {
            return Err(format!("message {number} was never sent").into());
        }
        if self.numbers.last().is_some_and(|&last| number < last) {
            self.out_of_order += 1;
        }
        if !self.numbers.insert(number) {
            return Err(format!("message {number} arrived twice").into());
        }
        self.bytes += bytes as u64;
        Ok(false)
    }

    fn figures(&self) -> String {
        format!(
            "{} of {MESSAGES} messages arrived ({} bytes), each whole, {} out of order",
            self.numbers.len(),
            self.bytes,
            self.out_of_order
        )
    }
}

/// A fabric must lose some messages and not all: otherwise the scenario shows nothing.
fn judge(arrived: u64) -> Result<()> {
    match arrived {
        0 => Err("nothing arrived".into()),
        n if n >= MESSAGES.into() => Err("nothing was lost: is the fabric lossy?".into()),
        _ => Ok(()),
    }
}
