//! The address handles of a UD queue pair.
//!
//! Work requests name them by index, so that posting needs no reference count; an address handle that is
//! removed lives on until no outstanding work request can name it. (Soft-RoCE looks it up when it
//! transmits, not when it is posted: R5.3.)

#![allow(unsafe_code)] // an index that needs no check

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::handle;
use crate::sys::types::ibv_ah;

/// The name of an address handle within the queue pair that it was given to, for a
/// [`Destination`](crate::Destination), where C has `wr.ud.ah` (R5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AhIndex {
    raw: *mut ibv_ah,
    index: u32,
    /// Unique in the process, never 0.
    key: u32,
}

// SAFETY: a name; the pointer is only handed to the device, by a queue pair that has the handle.
unsafe impl Send for AhIndex {}
// SAFETY: as above.
unsafe impl Sync for AhIndex {}

impl AhIndex {
    /// The C handle, which is there if the table `has` this name.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut ibv_ah {
        self.raw
    }
}

/// # Invariants
/// - If slot `i` has key `k`, `ahs[i]` is the live address handle that the `AhIndex` with key `k` names.
/// - There are `mask + 1` keys, a power of two; key 0 is that of no name.
/// - `retired` holds handles that a work request posted before the number beside them may name.
pub(crate) struct AhTable {
    keys: Box<[u32]>,
    mask: u32,
    ahs: Vec<Option<handle::Ah>>,
    retired: Vec<(handle::Ah, u32)>,
}

impl Default for AhTable {
    fn default() -> Self {
        AhTable { keys: Box::new([0]), mask: 0, ahs: Vec::new(), retired: Vec::new() }
    }
}

impl AhTable {
    /// Whether the handle that `index` names is still there.
    #[inline(always)]
    pub fn has(&self, index: AhIndex) -> bool {
        let slot = (index.index & self.mask) as usize;
        // SAFETY: there are `mask + 1` keys.
        *unsafe { self.keys.get_unchecked(slot) } == index.key
    }

    /// Adds a handle; `Err` when names are used up.
    pub fn add(&mut self, ah: handle::Ah) -> Result<AhIndex, handle::Ah> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let next = |key: u32| key.checked_add(1);
        let Ok(key) = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) else {
            return Err(ah);
        };
        let free = self.ahs.iter().position(Option::is_none);
        let index = free.unwrap_or(self.ahs.len());
        if index == self.ahs.len() {
            self.ahs.push(None);
        }
        if index >= self.keys.len() {
            let mut keys = std::mem::take(&mut self.keys).into_vec();
            keys.resize((index + 1).next_power_of_two(), 0);
            self.mask = keys.len() as u32 - 1;
            self.keys = keys.into_boxed_slice();
        }
        let raw = ah.as_ptr();
        self.ahs[index] = Some(ah);
        self.keys[index] = key;
        Ok(AhIndex { raw, index: index as u32, key })
    }

    /// Takes the name away; the handle goes once `posted` work requests have completed.
    pub fn remove(&mut self, index: AhIndex, posted: u32) -> bool {
        if !self.has(index) {
            return false;
        }
        let slot = (index.index & self.mask) as usize;
        self.keys[slot] = 0;
        self.retired.extend(self.ahs[slot].take().map(|ah| (ah, posted)));
        true
    }

    /// Any live address handle of the table, for a work request that is the last of `posted`. A removed one waits for
    /// that too from now on.
    pub fn lend_any(&mut self, posted: u32) -> Option<*mut ibv_ah> {
        if let Some(ah) = self.ahs.iter().flatten().next() {
            return Some(ah.as_ptr());
        }
        let (ah, until) = self.retired.first_mut()?;
        *until = posted;
        Some(ah.as_ptr())
    }

    /// Destroys the removed handles whose work requests have all completed. Gives the number left.
    pub fn reap(&mut self, completed: u32) -> usize {
        self.retired.retain(|(_, posted)| (completed.wrapping_sub(*posted) as i32) < 0);
        self.retired.len()
    }
}
